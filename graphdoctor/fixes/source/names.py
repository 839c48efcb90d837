"""Which names a function uses and binds, and which ones are free."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.source.nodes import assigned, is_in_place
from graphdoctor.fixes.source.tree import SourceFile, names_in, walk


class Names:
    """The names of one function, including those of inner functions."""

    def __init__(self, source: SourceFile, function: cst.FunctionDef | cst.Lambda) -> None:
        self.source = source
        self._function = function
        self._given: set[str] = set()

    @cached_property
    def _used(self) -> list[cst.Name]:
        return list(names_in(self._function))

    def fresh(self, name: str) -> str:
        """A name that the file doesn't use and that wasn't returned before: ``condition``,
        ``condition_2``.
        """
        candidate = self.source.free_name(name, self._given)
        self._given.add(candidate)
        return candidate

    def named(self, test: cst.BaseExpression) -> tuple[cst.Name, list[cst.BaseStatement]]:
        """A name for a condition, and the line that sets it, unless it is a name already."""
        if isinstance(test, cst.Name):
            return test, []
        name = cst.Name(self.fresh("condition"))
        return name, [assigned(name, test)]

    def is_only_in(self, name: str, nodes: Sequence[cst.CSTNode]) -> bool:
        """Whether nothing outside some nodes uses or declares a name."""
        inside = sum(found.value == name for node in nodes for found in names_in(node))
        return inside == sum(found.value == name for found in self._used)

    def is_bound_before(self, name: str, node: cst.CSTNode) -> bool:
        """Whether a name is a parameter, or appears before a node or in its test."""
        parameters = (
            found.name.value
            for found in walk(self._function.params)
            if isinstance(found, cst.Param)
        )
        tested = [found.value for found in names_in(node.test)] if isinstance(node, cst.If) else []
        before = (
            found.value
            for found in self._used
            if self.source.start(found) < self.source.start(node)
        )
        return name in (*parameters, *tested, *before)

    def is_declared(self, name: str) -> bool:
        """Whether ``global`` or ``nonlocal`` declares a name, so that it isn't the function's
        own.
        """
        declarations = [
            found for found in walk(self._function) if isinstance(found, cst.Global | cst.Nonlocal)
        ]
        return any(item.name.value == name for found in declarations for item in found.names)

    @property
    def is_changing_tensors(self) -> bool:
        """Whether the function, or one around it, visibly changes something in place."""
        around = [self._function, *self.source.parents(self._function)]
        outermost = [found for found in around if isinstance(found, cst.FunctionDef | cst.Lambda)][
            -1
        ]
        stored = matchers.AugAssign() | matchers.AssignTarget(target=matchers.Subscript())
        return any(
            is_in_place(found) or matchers.matches(found, stored) for found in walk(outermost)
        )
