"""The model's own mistake, met inside the compiled region.

``hidden`` yields 16 features and ``out`` expects 8. The program fails without torch.compile just
the same; compiled, the error comes as torch's ``TorchRuntimeError``.

graphdoctor finds:
    calls=1 compiles=0 graphs=0 break_sites=0 break_records=0 skipped_frames=0
    recompiles=0 frames_over_limit=0
    GD901 line 26
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.hidden(x))
        return self.out(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
