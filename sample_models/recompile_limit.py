"""Eleven calls that differ in a size and in a number on the module: torch gives up after eight
compiles.

The size becomes dynamic at the second call. The number ``step`` does not: torch.compile takes
numbers on a module for constants, so every call compiles again until the limit is hit; from then on
``forward`` runs eagerly.

graphdoctor finds:
    calls=11 compiles=8 graphs=8 break_sites=0 break_records=0 skipped_frames=0
    recompiles=7 frames_over_limit=1 coverage=0.00
    GD201 line 30
    GD202 line 31
    GD205 line 31
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.step = 0

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) / (1.0 + self.step)


model = Net()


def example_inputs() -> Iterator[tuple[Tensor]]:
    for step in range(11):
        model.step = step
        yield (torch.randn(4 + step, 8),)


if __name__ == "__main__":
    compiled = torch.compile(model, backend="eager")
    for inputs in example_inputs():
        compiled(*inputs)
