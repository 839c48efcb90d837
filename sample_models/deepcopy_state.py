"""``copy.deepcopy`` in ``forward`` breaks the graph.

torch.compile follows ``deepcopy`` through plain Python objects but not into tensors. Its stack ends
inside the standard library's ``copy.py``; the line to change is the one that calls it.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0
    GD108 line 28
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(16, 8)
        self.initial = {"hidden": torch.zeros(1, 8)}

    def forward(self, x: Tensor) -> Tensor:
        scaled = x * 0.5
        state = copy.deepcopy(self.initial)
        hidden = state["hidden"].expand(x.shape[0], -1)
        return torch.tanh(self.cell(torch.cat([scaled, hidden], dim=-1)))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Recurrent(), backend="eager")(*example_inputs())
