"""``warnings.warn`` in ``forward`` breaks the graph.

The warning is shown once, the break stays for every call.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
    GD101 line 27
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.linear(x)
        if mask is None:
            warnings.warn("no mask given: every position counts", stacklevel=2)
            return torch.relu(x)
        return torch.relu(x) * mask


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
