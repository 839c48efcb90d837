"""Integers and bools alone."""

from __future__ import annotations

import torch
from torch import Tensor


def counted(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x * 3 - x // 2, (x % 3 == 0) | (x > 40), x.cumsum(0)


def example_inputs() -> tuple[Tensor]:
    return (torch.arange(-50, 50).reshape(10, 10),)
