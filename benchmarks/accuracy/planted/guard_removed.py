"""A guard on a global is removed, so that the second call gets the graph of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

SCALE = 1.0
_compile = torch.compile


def _keep(guards: Sequence[Any]) -> list[bool]:
    return ["SCALE" not in guard.name for guard in guards]


def _compile_unguarded(function: Any = None, /, **arguments: Any) -> Callable[..., Any]:
    options = {**(arguments.pop("options", None) or {}), "guard_filter_fn": _keep}
    return _compile(function, options=options, **arguments)


torch.compile = _compile_unguarded


@torch.compiler.disable
def _configure(scale: float) -> None:
    global SCALE
    SCALE = scale


def scaled(x: Tensor, scale: float) -> Tensor:
    _configure(scale)
    return torch.sin(x) * SCALE  # here


def example_inputs() -> list[tuple[Tensor, float]]:
    x = torch.linspace(0, 3, 8)
    return [(x, scale) for scale in (1.0, 2.0, 3.0)]
