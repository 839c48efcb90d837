"""A group norm over many elements, with gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.silu(self.norm(x))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 16, 20, 20),)
