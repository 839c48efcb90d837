"""The names that a function uses: which ones are free, and what a local one stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from graphdoctor.fixes.syntax.source import SourceFile, walk


def names_in(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The variables in a node, without attributes and keywords of calls."""
    for child in node.children:
        is_label = (isinstance(node, cst.Attribute) and child is node.attr) or (
            isinstance(node, cst.Arg) and child is node.keyword
        )
        if not is_label:
            yield from names_in(child)
    if isinstance(node, cst.Name):
        yield node


def dotted(node: cst.CSTNode) -> str | None:
    """``self.scale`` for a name or a chain of attributes; None for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (base := dotted(node.value)) is not None:
        return f"{base}.{node.attr.value}"
    return None


class Names:
    """The names of one function, including those of inner functions.

    Args:
        source: The file.
        function: The function.
    """

    def __init__(self, source: SourceFile, function: cst.FunctionDef | cst.Lambda) -> None:
        self._source = source
        self._function = function
        self._given: set[str] = set()

    @cached_property
    def _used(self) -> list[cst.Name]:
        return list(names_in(self._function))

    @cached_property
    def _parameters(self) -> frozenset[str]:
        return frozenset(found.name.value for found in walk(self._function.params) if isinstance(found, cst.Param))

    def fresh(self, name: str) -> str:
        """A name that the file doesn't use and that wasn't returned before: ``condition``, ``condition_2``."""
        candidate = self._source.free_name(name, self._given)
        self._given.add(candidate)
        return candidate

    def is_only_in(self, name: str, nodes: Sequence[cst.CSTNode]) -> bool:
        """Whether nothing outside some nodes uses or declares a name."""
        inside = sum(found.value == name for node in nodes for found in names_in(node))
        return inside == sum(found.value == name for found in self._used)

    def is_bound_before(self, name: str, node: cst.CSTNode) -> bool:
        """Whether a name is a parameter, or appears before a node or in its test."""
        place = self._source.position(node).start
        test = list(names_in(node.test)) if isinstance(node, cst.If) else []
        if name in self._parameters or any(found.value == name for found in test):
            return True
        for found in self._used:
            start = self._source.position(found).start
            if found.value == name and (start.line, start.column) < (place.line, place.column):
                return True
        return False

    def is_declared(self, name: str) -> bool:
        """Whether ``global`` or ``nonlocal`` declares a name, so that it isn't the function's own."""
        return any(
            item.name.value == name
            for found in walk(self._function)
            if isinstance(found, cst.Global | cst.Nonlocal)
            for item in found.names
        )

    def values(self, name: str) -> list[cst.BaseExpression]:
        """All values that a local name is set to; empty if that isn't certain."""
        if name in self._parameters:
            return []
        values: list[cst.BaseExpression] = []
        stores = 0
        for found in walk(self._function):
            if isinstance(found, cst.Assign) and len(found.targets) == 1:
                target = found.targets[0].target
                if isinstance(target, cst.Name) and target.value == name:
                    values.append(found.value)
            stores += isinstance(found, _BINDERS) and any(part.value == name for part in names_in(_bound(found)))
        return values if stores == len(values) else []

    @cached_property
    def is_changing_tensors(self) -> bool:
        """Whether the function visibly changes something in place."""
        around = [self._function, *self._source.parents(self._function)]
        outermost = [found for found in around if isinstance(found, cst.FunctionDef | cst.Lambda)][-1]
        for found in walk(outermost):
            if isinstance(found, cst.AugAssign) or is_in_place(found):
                return True
            if isinstance(found, cst.AssignTarget) and isinstance(found.target, cst.Subscript):
                return True
        return False


_BINDERS = (
    cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor, cst.AsName, cst.NameItem,
    cst.FunctionDef, cst.ClassDef, cst.ImportAlias,
)  # fmt: skip


def _bound(node: cst.CSTNode) -> cst.CSTNode:
    if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.AsName | cst.ImportAlias | cst.NameItem):
        return node.name
    assert isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For | cst.CompFor)
    return node.target


def is_in_place(node: cst.CSTNode) -> bool:
    """Whether a call changes a tensor, by torch's conventions: ``x.add_(1)``, ``relu(x, inplace=True)``, ``out=``."""
    if not isinstance(node, cst.Call):
        return False
    name = called(node)
    if name.endswith("_") and not name.endswith("__"):
        return True
    for arg in node.args:
        if arg.keyword is not None and (
            arg.keyword.value == "out"
            or (arg.keyword.value == "inplace" and not (isinstance(arg.value, cst.Name) and arg.value.value == "False"))
        ):
            return True
    return False


def called(call: cst.Call) -> str:
    """The last name of what is called, or an empty string."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""
