"""A print in a function that ``forward`` calls: one line, two records, three graphs.

torch.compile meets the print first while it traces ``forward``, and again when it compiles
``scaled`` on its own. The graphs are: ``forward`` up to the call, ``scaled`` behind the print,
``forward`` behind the call.

graphdoctor finds:
    calls=1 compiles=4 graphs=3 break_sites=1 break_records=2 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
    GD101 line 20
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def scaled(x: Tensor, factor: float) -> Tensor:
    print("scaling by", factor)
    return x * factor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.hidden(x)
        x = scaled(x, 0.5)
        return torch.relu(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
