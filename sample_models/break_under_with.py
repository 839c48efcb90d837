"""A context manager that torch.compile does not know: nothing is compiled.

It could not restore the lock in a resume function, so it gives up the whole ``forward``: the layer
before the ``with`` and the multiplication behind it run eagerly too.

graphdoctor finds:
    calls=1 compiles=0 graphs=0 break_sites=1 break_records=1 skipped_frames=1
    recompiles=0 frames_over_limit=0 coverage=0.00
    GD110 line 30
    GD111 line 30
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor, nn


class SharedCounter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.calls = 0
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        with self.lock:
            self.calls += 1
            x = torch.relu(x)
        return x * 2.0


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 8),)


if __name__ == "__main__":
    torch.compile(SharedCounter(), backend="eager")(*example_inputs())
