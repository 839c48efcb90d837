"""A number argument that varies: one recompile.

torch.compile takes a Python number for a constant until it sees a second value; then it compiles
once more and treats the number as an input of the graph.

graphdoctor finds:
    calls=4 compiles=2 graphs=2 break_sites=0 break_records=0 skipped_frames=0
    recompiles=1 frames_over_limit=0
    GD203 line 24
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, multiplier: float = 1.0) -> Tensor:
        return torch.tanh(self.linear(x)) * multiplier


def example_inputs() -> list[tuple[tuple[Tensor], dict[str, float]]]:
    x = torch.randn(4, 8)
    return [((x,), {"multiplier": multiplier}) for multiplier in (0.5, 1.5, 2.5, 3.5)]


if __name__ == "__main__":
    model = torch.compile(Net(), backend="eager")
    for args, kwargs in example_inputs():
        model(*args, **kwargs)
