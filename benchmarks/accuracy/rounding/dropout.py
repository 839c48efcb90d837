"""Dropout, whose draws are compiled code's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(16, 16), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(torch.relu(self.linear(x)))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 16),)
