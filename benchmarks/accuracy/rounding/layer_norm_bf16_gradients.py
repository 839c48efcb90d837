"""A layer norm in bfloat16 and its gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(64).bfloat16(), nn.Linear(64, 16).bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.nn.functional.gelu(self.norm(x)))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 64).bfloat16(),)
