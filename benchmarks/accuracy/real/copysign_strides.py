"""copysign of a transposed tensor is contiguous in compiled code."""

from __future__ import annotations

import torch
from torch import Tensor


def signed(size: Tensor, sign: Tensor) -> Tensor:
    return torch.copysign(size, sign - 0.5)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.rand(6, 5).mT, torch.rand(5, 6)
