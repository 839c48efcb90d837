"""A sum of a million numbers of both signs."""

from __future__ import annotations

import torch
from torch import Tensor


def total(x: Tensor) -> Tensor:
    return (x * 1.5).sum()


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(1000, 1000),)
