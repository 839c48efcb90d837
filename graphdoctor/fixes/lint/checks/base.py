"""What a check sees and what it yields."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from graphdoctor.fixes.lint.flow import Place
from graphdoctor.fixes.lint.program import Program
from graphdoctor.fixes.lint.regions import Region
from graphdoctor.fixes.lint.values import Kind, Values


@dataclass(frozen=True)
class Spot:
    """A place where torch certainly breaks or recompiles.

    Args:
        code: The rule's code.
        node: The expression or statement that torch points to.
        torch_id: torch 2.13's id of the break; None for a recompile.
        gb_type: torch's type of the break.
        context: As much of torch's developer context as the rule needs.
        subject: For a recompile, the value that changes.
        is_frame_lost: The function runs eagerly from there on, or as a whole, wherever the spot is.
    """

    code: str
    node: ast.expr | ast.stmt
    torch_id: str | None = None
    gb_type: str = ""
    context: str | None = None
    subject: str = ""
    is_frame_lost: bool = False


@dataclass(frozen=True)
class Site:
    """The function that a check looks at.

    Args:
        region: The function.
        program: Its file.
        values: Says what expressions are.
    """

    region: Region
    program: Program
    values: Values

    def dotted(self, node: ast.expr) -> str | None:
        """The full name that an expression refers to, or None."""
        return self.program.dotted(node, self.region.scope)

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a tensor."""
        return self.values.is_tensor(node, self.region.scope)

    def has_tensor_methods(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a tensor if one of a tensor's methods is called on it."""
        return self.kind(node) in ("tensor", "compared")

    def kind(self, node: ast.expr) -> Kind | None:
        """What an expression certainly is, or None."""
        value = self.values.of(node, self.region.scope)
        return None if value is None else value.kind

    def is_integer(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a tensor of integers."""
        value = self.values.of(node, self.region.scope)
        return value is not None and value.kind == "tensor" and value.dtype == "int"

    def is_mask(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a boolean tensor."""
        value = self.values.of(node, self.region.scope)
        return value is not None and value.kind == "tensor" and value.dtype == "bool"


Check = Callable[[ast.AST, Place, Site], Iterator[Spot]]
"""Looks at one node that certainly runs, and at what surrounds it."""
