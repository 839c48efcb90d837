"""A batch norm in train mode, which updates its statistics."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def build() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU())


def example_inputs() -> list[tuple[Tensor]]:
    return [(torch.randn(4, 3, 10, 10),) for _ in range(2)]
