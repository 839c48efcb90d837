"""A logger call in ``forward`` breaks the graph, whatever the level is.

The message is below the level and never shown; torch.compile stops at the call all the same.

graphdoctor finds:
    calls=1 compiles=2 graphs=2 break_sites=1 break_records=1 skipped_frames=0
    recompiles=0 frames_over_limit=0 coverage=1.00
    GD101 line 29
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.hidden(x))
        logger.debug("hidden %s", tuple(x.shape))
        return self.out(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(Net(), backend="eager")(*example_inputs())
