"""ldexp of bools and halves is float in compiled code, and half in eager mode."""

from __future__ import annotations

import torch
from torch import Tensor


def scale(mask: Tensor, exponent: Tensor) -> Tensor:
    return torch.ldexp(mask, exponent + 1)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.ones(3, 4, dtype=torch.bool), torch.randn(3, 4).half()
