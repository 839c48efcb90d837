"""A print in a loop over the layers: nothing is compiled.

torch.compile can't go on in the middle of a loop, so it gives up the whole ``forward``, without a
warning: every layer runs eagerly, although the print happens only once.

graphdoctor finds:
    calls=1 compiles=0 graphs=0 break_sites=1 break_records=1 skipped_frames=1
    recompiles=0 frames_over_limit=0 coverage=0.00
    GD101 line 28
    GD111 line 28
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            if i == 3:
                print("layer", i, tuple(x.shape))
        return x


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
