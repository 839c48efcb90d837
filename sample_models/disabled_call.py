"""A call of a function that was taken out of compilation with ``torch.compiler.disable``.

The graph ends at the call, the function runs eagerly, and a second graph begins behind it.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=0.50
    GD106 line 30
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


@torch.compiler.disable
def reference_norm(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.hidden(x)
        x = reference_norm(x)
        return self.out(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
