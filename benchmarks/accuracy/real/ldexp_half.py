"""ldexp of a half and a float is half in compiled code, and float in eager mode."""

from __future__ import annotations

import torch
from torch import Tensor


def scale(mantissa: Tensor, exponent: Tensor) -> Tensor:
    return torch.ldexp(mantissa.abs(), exponent)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(3, 4).half(), torch.randn(3, 4)
