"""A branch on is_compiling computes something else."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        if torch.compiler.is_compiling():  # here
            scores = scores / 8
        else:
            scores = scores / 8**0.5
        return scores.softmax(dim=-1)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 5, 8),)
