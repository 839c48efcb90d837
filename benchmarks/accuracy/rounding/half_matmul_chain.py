"""Products in float16 with a training step's gradients."""

from __future__ import annotations

import torch
from torch import Tensor


def chain(x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(4):
        x = torch.nn.functional.silu(x @ weight)
    return x


def example_inputs() -> tuple[Tensor, Tensor]:
    x, weight = torch.randn(16, 32), torch.randn(32, 32) / 4
    return x.half().requires_grad_(), weight.half().requires_grad_()
