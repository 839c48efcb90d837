"""exp(x) - 1 of small numbers, and its mean."""

from __future__ import annotations

import torch
from torch import Tensor


def growth(x: Tensor) -> Tensor:
    return (x.exp() - 1).mean(-1) / x.mean(-1)


def example_inputs() -> tuple[Tensor]:
    return (torch.rand(16, 500) * 1e-5,)
