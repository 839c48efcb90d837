"""A class attribute that changes between calls has no guard."""

from __future__ import annotations

import torch
from torch import Tensor


class _Schedule:
    scale = 1.0


@torch.compiler.disable
def _configure(scale: float) -> None:
    _Schedule.scale = scale


def scaled(x: Tensor, scale: float) -> Tensor:
    _configure(scale)
    return torch.sin(x) * _Schedule.scale  # here


def example_inputs() -> list[tuple[Tensor, float]]:
    x = torch.linspace(0, 3, 8)
    return [(x, scale) for scale in (1.0, 2.0, 3.0)]
