"""Three lines break the graph; the third shows only when the second is gone.

The print before the loop splits ``forward``. The print in the loop makes torch give up the rest of
it, so torch never gets to the ``if`` below, which would break the graph too.

graphdoctor finds:
    calls=1 compiles=1 graphs=1 break_sites=2 break_records=2 skipped_frames=1
    recompiles=0 frames_over_limit=0 coverage=0.18
    GD101 line 28
    GD101 line 31
    GD111 line 31
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        print("input", tuple(x.shape))
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            print("layer", i)
        if x.max() > 10.0:
            x = x / x.max()
        return x


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
