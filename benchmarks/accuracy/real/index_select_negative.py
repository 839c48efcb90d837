"""index_select refuses a negative index in eager mode, and wraps it in compiled code."""

from __future__ import annotations

import torch
from torch import Tensor


def pick(x: Tensor, index: Tensor) -> Tensor:
    return torch.index_select(x + 1, 0, index)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(5, 10), torch.tensor([-1])
