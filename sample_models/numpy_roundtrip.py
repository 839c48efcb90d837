"""A detour through numpy: ``.numpy()`` is traced, a function that torch does not know breaks the
graph.

torch.compile turns numpy functions into tensor operations where it has a counterpart. ``np.interp``
has none: it runs in Python, between two graphs.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0
    GD109 line 28
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


class ToneCurve(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.knots = np.array([0.0, 0.25, 0.75, 1.0])
        self.levels = np.array([0.0, 0.1, 0.9, 1.0])

    def forward(self, image: Tensor) -> Tensor:
        values = torch.sigmoid(image).numpy()
        curve = np.interp(values, self.knots, self.levels)
        return torch.from_numpy(curve).to(image.dtype) * 2.0 - 1.0


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(ToneCurve(), backend="eager")(*example_inputs())
