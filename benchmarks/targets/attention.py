"""Multi-head attention with its softmax written out: matrix products, and a little to fuse between
them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Eight heads."""

    def __init__(self, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, seq, width)`` in and out."""
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(-2))


torch.manual_seed(0)
model = Attention().eval()


def example_inputs() -> tuple[Tensor]:
    """The arguments of the call."""
    return (torch.randn(8, 512, 512),)
