"""A network and its gradients in float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.Tanh()
        )

    def forward(self, x: Tensor) -> Tensor:
        return (self.layers(x) ** 2).mean()


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(64, 32),)
