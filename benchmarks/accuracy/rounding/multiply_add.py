"""Products and sums that a compiler may fuse."""

from __future__ import annotations

import torch
from torch import Tensor


def horner(x: Tensor) -> Tensor:
    y = torch.full_like(x, 0.1)
    for coefficient in (0.7, -1.3, 2.1, -0.9, 1.7, -2.3, 0.3):
        y = y * x + coefficient
    return y


def example_inputs() -> tuple[Tensor]:
    return (torch.linspace(-2, 2, 4096),)
