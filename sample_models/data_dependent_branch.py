"""An ``if`` on a tensor's value splits the model, and each outcome gets a graph of its own.

Which way to go is known only when the numbers are there, so torch.compile ends the graph at the
``if``. Two calls that take different ways make three graphs: the shared beginning and the two
endings.

graphdoctor finds:
    calls=2 compiles=3 graphs=3 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=0.83
    GD102 line 26
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale
        if y.sum() > 0:
            return torch.sqrt(y.abs() + 1.0)
        return torch.exp(y) - 1.0


def example_inputs() -> list[tuple[Tensor]]:
    return [(torch.ones(4, 8),), (-torch.ones(4, 8),)]


if __name__ == "__main__":
    model = torch.compile(Net(), backend="eager")
    for inputs in example_inputs():
        model(*inputs)
