"""A sum that nearly cancels, so that its relative error is large in eager mode, too."""

from __future__ import annotations

import torch
from torch import Tensor


def rest(x: Tensor) -> Tensor:
    return torch.cat([x, -x.flip(0)]).sin().sum()


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(5000) * 100,)
