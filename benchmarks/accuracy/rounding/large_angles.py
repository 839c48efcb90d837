"""The cosine of large angles, whose last bit decides."""

from __future__ import annotations

import torch
from torch import Tensor


def waves(x: Tensor) -> Tensor:
    return torch.cos(x * 12.9898 + x / 7) * 2


def example_inputs() -> tuple[Tensor]:
    return (torch.linspace(0, 4000, 2000),)
