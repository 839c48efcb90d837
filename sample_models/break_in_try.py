"""A graph break inside ``try``: the whole function runs eagerly.

torch.compile can't go on in the middle of a ``try`` block, so it gives up the frame, the linear
layers before and behind it included.

graphdoctor finds:
    calls=1 compiles=0 graphs=0 break_sites=1 break_records=1 skipped_frames=1
    recompiles=0 frames_over_limit=0 coverage=0.00
    GD101 line 28
    GD111 line 28
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Solver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(8, 8)
        self.right = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.left(x)
        try:
            print("solving", tuple(matrix.shape))
            matrix = matrix @ matrix.T
        except ValueError:
            matrix = torch.zeros_like(matrix)
        return self.right(matrix)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 8),)


if __name__ == "__main__":
    torch.compile(Solver(), backend="eager")(*example_inputs())
