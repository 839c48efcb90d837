"""A print in ``forward`` splits the model into two graphs.

torch.compile can't put ``print`` into a graph: it compiles what comes before the line, runs the
line in Python and goes on behind it with a second graph.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
    GD101 line 26
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.hidden(x))
        print("hidden", tuple(x.shape))
        return self.out(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
