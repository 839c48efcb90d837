"""``.item()`` splits the model, and the number it yields makes torch compile again.

The rest of ``forward`` is compiled for the very number of the first call. The second call has
another one: torch compiles the rest once more, now for any number, and the third call needs nothing
new.

graphdoctor finds:
    calls=3 compiles=3 graphs=3 break_sites=1 break_records=1 skipped_frames=0
    recompiles=1 frames_over_limit=0
    GD103 line 27
    GD203 line 28
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        largest = y.abs().max().item()
        return torch.tanh(y / largest)


def example_inputs() -> list[tuple[Tensor]]:
    return [(torch.randn(4, 8),) for _ in range(3)]


if __name__ == "__main__":
    model = torch.compile(Net(), backend="eager")
    for inputs in example_inputs():
        model(*inputs)
