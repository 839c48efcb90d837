"""An MLP with a text argument that is another one in each call: as many cache entries as torch
allows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Modes(nn.Module):
    """Sixteen layers, and a branch on text."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(16))

    def forward(self, x: Tensor, mode: str) -> Tensor:
        """One step."""
        for layer in self.layers:
            x = layer(x)
        return x * len(mode)


torch.manual_seed(0)
model = Modes()


def changing_inputs() -> list[tuple[Tensor, str]]:
    """Arguments of calls that compile again, up to torch's limit."""
    return [(torch.ones(4, 8), "m" * length) for length in range(1, 9)]
