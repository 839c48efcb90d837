"""torch.Tensor(x.size()) has that shape in eager mode, and those values in compiled code."""

from __future__ import annotations

import torch
from torch import Tensor


def like(x: Tensor) -> Tensor:
    return torch.Tensor(x.size()).zero_()  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(1, 10),)
