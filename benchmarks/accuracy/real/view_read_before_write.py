"""A value read through a dtype view is computed after the write that follows it."""

from __future__ import annotations

import torch
from torch import Tensor


def halves(x: Tensor) -> Tensor:
    y = x.view(torch.int32) * 2  # here
    y.sub_(-4)
    x[:, 2:5] = 2
    return y.view(torch.int64)


def example_inputs() -> tuple[Tensor]:
    return (torch.arange(-12, 12).reshape(4, 6),)
