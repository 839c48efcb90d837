"""Functions of single elements, and a sum of them: one kernel, which computes much for each element
that it reads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Chain(nn.Module):
    """Three such functions."""

    def __init__(self, width: int = 4096) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        """``(rows, width)`` in, ``(rows,)`` out."""
        y = nn.functional.gelu(x * self.weight + self.bias) * torch.sigmoid(x) + torch.tanh(x)
        return y.sum(-1)


torch.manual_seed(0)
model = Chain()


def example_inputs() -> tuple[Tensor]:
    """The arguments of the call."""
    return (torch.randn(16384, 4096),)
