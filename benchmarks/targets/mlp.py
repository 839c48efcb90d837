"""Two linear layers with a print between them: small, and it breaks once."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Prints between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        """One step."""
        x = self.first(x)
        print("between the layers")
        return self.second(x)


torch.manual_seed(0)
model = MLP()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randn(4, 8),)
