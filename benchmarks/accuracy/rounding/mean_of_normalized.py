"""The mean of what a layer norm returns, 0 but for rounding."""

from __future__ import annotations

import torch
from torch import Tensor


def mean(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:]).mean(-1)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(32, 256) + 3,)
