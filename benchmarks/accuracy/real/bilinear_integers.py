"""Bilinear upsampling isn't there for integers in eager mode, and is in compiled code."""

from __future__ import annotations

import torch
from torch import Tensor


def enlarge(image: Tensor) -> Tensor:
    return torch.ops.aten.upsample_bilinear2d(image, [16, 15], False, None, None)  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.arange(24, dtype=torch.int32).reshape(1, 3, 1, 8),)
