"""What a check sees and what it yields."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from graphdoctor.lint.flow import Place
from graphdoctor.lint.program import Program
from graphdoctor.lint.regions import Region
from graphdoctor.lint.values import Kind, Values


@dataclass(frozen=True)
class Spot:
    """A place where torch certainly breaks, or compiles again.

    Args:
        code: The rule's code.
        node: The expression or statement that torch points to.
        torch_id: The id that torch 2.13 gives the break; None for a recompile.
        gb_type: torch's name of the break.
        context: As much of torch's developer context as the rule's words need.
        subject: For a recompile the value that changes.
        is_frame_lost: Wherever it stands, the function runs eagerly from there on, or as a whole.
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
    """The function that a check looks into.

    Args:
        region: The function.
        program: Its file.
        values: What expressions are.
    """

    region: Region
    program: Program
    values: Values

    def dotted(self, node: ast.expr) -> str | None:
        """The full name of what an expression names."""
        return self.program.dotted(node, self.region.scope)

    def is_tensor(self, node: ast.expr) -> bool:
        """Whether an expression is certainly a tensor."""
        return self.values.is_tensor(node, self.region.scope)

    def kind(self, node: ast.expr) -> Kind | None:
        """What an expression certainly is."""
        value = self.values.of(node, self.region.scope)
        return None if value is None else value.kind

    def is_integer(self, node: ast.expr) -> bool:
        """Whether it is certainly a tensor of integers."""
        value = self.values.of(node, self.region.scope)
        return value is not None and value.kind == "tensor" and value.dtype == "int"

    def is_mask(self, node: ast.expr) -> bool:
        """Whether it is certainly a boolean tensor."""
        value = self.values.of(node, self.region.scope)
        return value is not None and value.kind == "tensor" and value.dtype == "bool"


Check = Callable[[ast.AST, Place, Site], Iterator[Spot]]
"""Looks at one node that certainly runs, with what stands around it."""
