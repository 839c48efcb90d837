"""Python control flow that depends on a tensor's value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.fixes.lint.checks.base import Site, Spot
from graphdoctor.fixes.lint.flow import Place

_TYPE = "Data-dependent branching"
_CONTEXT = "attempted to jump with TensorVariable()"


def branches(node: ast.AST, place: Place, site: Site) -> Iterator[Spot]:
    """``if``, ``while``, a conditional expression, and an ``assert`` with a computed message.

    An ``assert`` with a constant message, or none, becomes a check in the graph.
    """
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if _decides(test, site):
                yield Spot("GD102", _pointed(test), "GB0170", _TYPE, _CONTEXT)
        case ast.Assert(test=test, msg=ast.expr() as message):
            is_plain = isinstance(message, ast.Constant) and isinstance(message.value, str)
            if not is_plain and _decides(test, site):
                yield Spot("GD102", node, "GB0170", _TYPE, _CONTEXT)
        case ast.BoolOp(values=[first, *_]):
            # As a value; a branch reports its own test.
            if not place.is_test and site.is_tensor(first):
                yield Spot("GD102", node, "GB0170", _TYPE, _CONTEXT)
        case _:
            return


def _decides(test: ast.expr, site: Site) -> bool:
    """Whether the first thing evaluated is a tensor."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _decides(operand, site)
        case ast.BoolOp(values=[first, *_]):
            return _decides(first, site)
        case ast.Compare(left=left, ops=[op, _, *_], comparators=[right, *_]):
            return site.is_tensor(ast.Compare(left, [op], [right]))
        case _:
            return site.is_tensor(test)


def _pointed(test: ast.expr) -> ast.expr:
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
