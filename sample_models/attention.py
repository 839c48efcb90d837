"""Multi-head attention with an optional mask: one graph a kind of call, nothing is broken.

A call with a mask takes another way through ``forward`` than a call without: torch compiles the
function twice, and that is as it should be.

graphdoctor finds:
    calls=2 compiles=2 graphs=2 break_sites=0 break_records=0 skipped_frames=0
    recompiles=1 frames_over_limit=0 coverage=1.00
    GD216 line 32
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class MultiHeadAttention(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        split = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def example_inputs() -> list[tuple[Tensor, ...]]:
    x = torch.randn(2, 10, 32)
    causal = torch.ones(10, 10, dtype=torch.bool).tril()
    return [(x,), (x, causal)]


if __name__ == "__main__":
    model = torch.compile(MultiHeadAttention(), backend="eager")
    for inputs in example_inputs():
        model(*inputs)
