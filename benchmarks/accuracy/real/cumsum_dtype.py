"""cumsum over a constant forgets the dtype that it was asked for."""

from __future__ import annotations

import torch
from torch import Tensor


def positions(x: Tensor) -> tuple[Tensor, Tensor]:
    mask = torch.ones((2, 4, 4), dtype=torch.bool)
    return mask.cumsum(1, dtype=torch.bfloat16), x + 1  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4),)
