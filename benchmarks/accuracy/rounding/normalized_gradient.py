"""The gradient of a sum of normalized squares, which is 0 but for rounding."""

from __future__ import annotations

import torch
from torch import Tensor


def unit(x: Tensor) -> Tensor:
    return (torch.nn.functional.normalize(x, dim=-1) ** 2).sum()


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 64, requires_grad=True),)
