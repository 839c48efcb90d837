"""Sequences of 100, 200 and 300 tokens: one recompile.

The length of the first sequence is compiled in as a constant. At the second, torch.compile makes
that dimension dynamic, and the third needs nothing new.

graphdoctor finds:
    calls=3 compiles=2 graphs=2 break_sites=0 break_records=0 skipped_frames=0
    recompiles=1 frames_over_limit=0 coverage=1.00
    GD202 line 27
    GD210 line 26
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    def __init__(self, vocabulary: int = 50, width: int = 16, longest: int = 512) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        return self.out(torch.tanh(x))


def example_inputs() -> list[tuple[Tensor]]:
    return [(torch.randint(0, 50, (2, length)),) for length in (100, 200, 300)]


if __name__ == "__main__":
    model = torch.compile(Encoder(), backend="eager")
    for inputs in example_inputs():
        model(*inputs)
