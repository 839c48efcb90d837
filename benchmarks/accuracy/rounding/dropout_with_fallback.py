"""Dropout with eager mode's stream of random numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

torch._inductor.config.fallback_random = True


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(16, 16), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.linear(x)))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 16),)
