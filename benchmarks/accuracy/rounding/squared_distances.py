"""Squared distances by products, of points near each other."""

from __future__ import annotations

import torch
from torch import Tensor


def distances(x: Tensor, y: Tensor) -> Tensor:
    squares = (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None]
    return (squares - 2 * x @ y.T).clamp_min(0).diagonal()


def example_inputs() -> tuple[Tensor, Tensor]:
    near = torch.randn(20, 64)
    return near, near + 1e-4 * torch.randn(20, 64)
