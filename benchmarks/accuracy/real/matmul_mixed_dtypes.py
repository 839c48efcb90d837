"""Half times float: another exception in compiled code than in eager mode."""

from __future__ import annotations

import torch
from torch import Tensor


def multiply(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 3, 4).half(), torch.randn(2, 4, 5)
