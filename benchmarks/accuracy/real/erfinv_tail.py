"""erfinv loses digits near 1 in compiled code."""

from __future__ import annotations

import torch
from torch import Tensor


def quantile(probability: Tensor) -> Tensor:
    return torch.erfinv(2 * probability - 1)  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.tensor([0.5, 0.9, 1 - 1e-12, 1 - 1e-14, 1 - 1e-15], dtype=torch.float64),)
