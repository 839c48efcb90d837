"""index_add refuses a negative index in eager mode, and wraps it in compiled code."""

from __future__ import annotations

import torch
from torch import Tensor


def gather_rows(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    return torch.index_add(x, 0, index, rows * 2)  # here


def example_inputs() -> tuple[Tensor, Tensor, Tensor]:
    return torch.zeros(4, 3), torch.tensor([0, -1]), torch.ones(2, 3)
