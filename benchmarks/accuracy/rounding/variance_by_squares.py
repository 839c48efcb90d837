"""The variance as the mean of squares less the square of the mean."""

from __future__ import annotations

import torch
from torch import Tensor


def spread(x: Tensor) -> Tensor:
    return (x * x).mean(-1) - x.mean(-1) ** 2


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(16, 600) + 100,)
