"""``torch.autocast`` inside the model: one graph, nothing to find.

torch.compile knows this context manager and writes it into the graph.

graphdoctor finds:
    calls=1 compiles=1 graphs=1 break_sites=0 break_records=0 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
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
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = torch.relu(self.hidden(x))
            x = self.out(x)
        return torch.softmax(x.float(), dim=-1)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
