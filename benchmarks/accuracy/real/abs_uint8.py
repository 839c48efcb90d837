"""A negated absolute value of uint8 isn't wrapped before it is summed."""

from __future__ import annotations

import torch
from torch import Tensor


def total(x: Tensor) -> Tensor:
    y = -x.abs()  # here
    return torch.cat([y, y]).sum()


def example_inputs() -> tuple[Tensor]:
    return (torch.tensor([200, 200], dtype=torch.uint8),)
