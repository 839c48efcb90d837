"""A graph break on purpose: ``torch._dynamo.graph_break()``.

It splits the model as any other break does, though every operation still runs in one of the two
graphs.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
    GD107 line 26
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(8, 16)
        self.decoder = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        code = torch.relu(self.encoder(x))
        torch._dynamo.graph_break()
        return self.decoder(code)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
