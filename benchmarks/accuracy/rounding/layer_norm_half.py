"""A layer norm in float16, which compiled code computes in float32 throughout."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64).half()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x * 3 + x) * 2 + x


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 64).half(),)
