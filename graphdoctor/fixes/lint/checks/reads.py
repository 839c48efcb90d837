"""Reads of a tensor's value into Python, as a number, a string or for sorting."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.fixes.lint.checks.base import Site, Spot
from graphdoctor.fixes.lint.flow import Place

_ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
_DEPENDS = "Data dependent operator"
_BUILTIN = "Failed to trace builtin operator"
_VARIABLE = "TensorVariable()"
_MATH = frozenset(
    f"math.{name}" for name in ("sqrt", "isnan", "isinf", "isfinite", "exp", "log", "floor", "ceil", "sin", "cos")
)


def reads(node: ast.AST, place: Place, site: Site) -> Iterator[Spot]:
    """``item()``, ``tolist()``, ``float(t)``, ``math.sqrt(t)``, ``torch.equal``, ``range(t)``, ``not t``."""
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.Not) and not place.is_test and site.is_tensor(node.operand):
            yield Spot("GD103", node, "GB0033", _DEPENDS, is_frame_lost=True)
    elif isinstance(node, ast.Subscript):
        is_list = isinstance(node.value, (ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Load)
        if is_list and site.is_tensor(node.slice):
            yield _item(node)
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and site.has_tensor_methods(node.func.value)
    ):
        yield from _methods(node, node.func, site)
    elif isinstance(node, ast.Call) and node.args and site.is_tensor(node.args[0]):
        yield from _taken(node, site.dotted(node.func))
    elif isinstance(node, ast.Call) and site.dotted(node.func) == "builtins.sorted" and node.args:
        first = node.args[0]
        is_list = isinstance(first, (ast.List, ast.Tuple)) and len(first.elts) > 1
        if is_list and not node.keywords and all(site.is_tensor(one) for one in first.elts):  # type: ignore[attr-defined]
            yield Spot("GD123", node, "GB0207", "sort with non-constant keys", _VARIABLE)


def _item(node: ast.expr) -> Spot:
    return Spot("GD103", node, "GB0124", _ITEM, "call_method TensorVariable() item () {}")


def _methods(node: ast.Call, func: ast.Attribute, site: Site) -> Iterator[Spot]:
    name = func.attr
    if name == "item" and not node.args:
        yield _item(node)
    elif name == "tolist":
        if site.is_integer(func.value):
            yield Spot("GD103", node, "GB0033", _DEPENDS)
        else:
            yield Spot("GD103", node, "GB0109", "Tensor.tolist() with non-integer tensor")
    elif name in ("equal", "allclose"):
        yield Spot("GD103", node, "GB0033", _DEPENDS, f"aten.{name}.default")


def _taken(node: ast.Call, dotted: str | None) -> Iterator[Spot]:
    match dotted:
        case "builtins.float" | "builtins.int" | "builtins.bool":
            yield _item(node)
        case "builtins.range":
            yield Spot("GD103", node, "GB0059", _BUILTIN, f"builtin range [{_VARIABLE}]")
        case "builtins.str":
            yield Spot("GD109", node, "GB0059", _BUILTIN, f"builtin str [{_VARIABLE}]")
        case "builtins.repr":
            yield Spot("GD109", node, "GB0569", "repr() on tensor")
        case "torch.equal" | "torch.allclose":
            yield Spot("GD103", node, "GB0033", _DEPENDS)
        case str() if dotted in _MATH:
            yield Spot("GD103", node, "GB0033", _DEPENDS)
        case _:
            return
