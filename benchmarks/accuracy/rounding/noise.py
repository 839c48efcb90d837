"""Noise added to the input."""

from __future__ import annotations

import torch
from torch import Tensor


def noisy(x: Tensor) -> Tensor:
    return x + 0.1 * torch.randn_like(x) * torch.rand(1)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 16),)
