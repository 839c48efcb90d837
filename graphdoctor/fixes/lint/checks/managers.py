"""Context managers that torch can't enter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.fixes.lint import torch_names
from graphdoctor.fixes.lint.checks.base import Site, Spot
from graphdoctor.fixes.lint.flow import Place

_MAKERS = torch_names.LOCKS | {
    "builtins.open",
    "contextlib.redirect_stdout",
    "tempfile.TemporaryDirectory",
    "torch.device",
    "torch.autograd.detect_anomaly",
    "torch.autograd.set_detect_anomaly",
    "torch.autograd.graph.save_on_cpu",
    "torch.random.fork_rng",
}


def managers(node: ast.AST, place: Place, site: Site) -> Iterator[Spot]:  # noqa: ARG001 - a check's interface
    """``with`` on a lock, a file, ``torch.device``, anomaly detection and a few others."""
    if not isinstance(node, ast.With):
        return
    for item in node.items:
        entered = item.context_expr
        made = site.dotted(entered.func) if isinstance(entered, ast.Call) else None
        if made in _MAKERS or site.kind(entered) == "lock":
            yield Spot("GD110", node, "GB0142", "Unsupported context manager", is_frame_lost=True)
            return
