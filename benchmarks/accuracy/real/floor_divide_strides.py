"""floor_divide of a transposed tensor is contiguous in compiled code."""

from __future__ import annotations

import torch
from torch import Tensor


def bins(x: Tensor, width: Tensor) -> Tensor:
    return torch.floor_divide(x, width + 1)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.rand(6, 5).mT * 10, torch.rand(5, 6)
