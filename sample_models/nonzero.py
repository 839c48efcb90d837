"""``nonzero`` yields as many rows as there are non-zero values: the graph ends there.

The shape of the result depends on the numbers, and torch.compile keeps such operators out of its
graphs unless it is told otherwise.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=0.80
    GD104 line 25
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.linear(x)
        rows = torch.nonzero(mask).squeeze(-1)
        return y.index_select(0, rows).mean(dim=0)


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 8), torch.tensor([True, False, True, True])


if __name__ == "__main__":
    torch.compile(Pooling(), backend="eager")(*example_inputs())
