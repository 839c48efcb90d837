"""Recurrent modules, and a module's numbers that count its calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.fixes.lint.checks.base import Site, Spot
from graphdoctor.fixes.lint.flow import Place


def modules(node: ast.AST, place: Place, site: Site) -> Iterator[Spot]:  # noqa: ARG001 - a check's interface
    """An RNN, GRU or LSTM, which torch refuses where it is read, called or not; ``self.step += 1``."""
    is_read = isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
    if is_read and isinstance(node, ast.expr) and site.kind(node) == "recurrent":
        yield Spot("GD116", node, "GB0014", "Attempted to wrap RNN, GRU, or LSTM", is_frame_lost=True)
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        yield from _counter(node, node.target, site)


def _counter(node: ast.AugAssign, target: ast.Attribute, site: Site) -> Iterator[Spot]:
    owner = site.values.owner(target.value, site.region.scope)
    if owner is None or not site.program.is_module_class(owner) or not _is_step(node.op, node.value):
        return
    bindings = [binding for one in site.program.ancestors(owner) for _, binding in one.attributes.get(target.attr, ())]
    starts = [one for one in bindings if isinstance(one.node, ast.Constant) and isinstance(one.node.value, int | float)]
    steps = [one for one in bindings if isinstance(one.node, ast.BinOp) and _is_step(one.node.op, one.node.right)]
    if starts and len(starts) + len(steps) == len(bindings):
        yield Spot("GD205", node, subject=f"self.{target.attr}")


def _is_step(op: ast.operator, value: ast.expr) -> bool:
    is_number = isinstance(value, ast.Constant) and type(value.value) in (int, float) and value.value != 0
    return is_number and isinstance(op, (ast.Add, ast.Sub))
