"""Batches of 16, 32, 64 and 128 rows: one recompile.

The first batch size is compiled in as a constant. At the second, torch.compile makes that dimension
dynamic, and the code then serves every batch of two rows or more.

graphdoctor finds:
    calls=4 compiles=2 graphs=2 break_sites=0 break_records=0 skipped_frames=0
    recompiles=1 frames_over_limit=0 coverage=1.00
    GD202 line 28
    GD210 line 27
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.log_softmax(self.out(torch.relu(self.hidden(x))), dim=-1)


def example_inputs() -> Iterator[tuple[Tensor]]:
    for batch_size in (16, 32, 64, 128):
        yield (torch.randn(batch_size, 8),)


if __name__ == "__main__":
    model = torch.compile(Classifier(), backend="eager")
    for inputs in example_inputs():
        model(*inputs)
