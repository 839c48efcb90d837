"""Operators whose output size depends on a tensor's values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.fixes.lint.checks.base import Site, Spot
from graphdoctor.fixes.lint.flow import Place

_TYPE = "Dynamic shape operator"
_OPERATORS = {
    "nonzero": "nonzero",
    "argwhere": "nonzero",
    "masked_select": "masked_select",
    "unique": "_unique2",
    "unique_consecutive": "unique_consecutive",
    "bincount": "bincount",
}


def shapes(node: ast.AST, place: Place, site: Site) -> Iterator[Spot]:
    """``nonzero``, ``x[mask]``, ``unique``, ``bincount``, ``repeat_interleave`` with a tensor, ``one_hot``."""
    if isinstance(node, ast.Subscript):
        if _is_read(node, place) and site.is_tensor(node.value) and any(site.is_mask(one) for one in _indices(node)):
            yield _spot(node, "nonzero")
        return
    if not isinstance(node, ast.Call):
        return
    dotted = site.dotted(node.func) or ""
    if dotted == "torch.nn.functional.one_hot":
        is_given = len(node.args) > 1 or any(keyword.arg == "num_classes" for keyword in node.keywords)
        if not is_given and len(node.args) == 1:
            yield Spot(
                "GD104", node, "GB0246", "Attempted to use `torch.nn.functional.one_hot` with total classes unset"
            )
        return
    if dotted.startswith("torch."):
        name, arguments = dotted.removeprefix("torch."), node.args
    elif isinstance(node.func, ast.Attribute) and site.has_tensor_methods(node.func.value):
        name, arguments = node.func.attr, [node.func.value, *node.args]
    else:
        return
    if name in _OPERATORS or (name == "where" and len(arguments) == 1 and not node.keywords):
        yield _spot(node, _OPERATORS.get(name, "nonzero"))
    elif name == "repeat_interleave" and len(arguments) > 1:
        is_sized = any(keyword.arg == "output_size" for keyword in node.keywords)
        if not is_sized and site.is_tensor(arguments[1]):
            yield _spot(node, "repeat_interleave")


def _spot(node: ast.expr, operator: str) -> Spot:
    return Spot("GD104", node, "GB0036", _TYPE, f"aten.{operator}.default")


def _is_read(node: ast.Subscript, place: Place) -> bool:
    """Whether the subscript is read: ``x[mask] += 1`` reads too, ``x[mask] = 1`` doesn't."""
    if isinstance(node.ctx, ast.Load):
        return True
    return isinstance(place.statement, ast.AugAssign) and place.statement.target is node


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
