"""A convolution and a batch norm in eval mode, folded into one when weights are frozen."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def build() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    model(torch.randn(16, 3, 12, 12))
    return model.eval()


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 3, 12, 12),)
