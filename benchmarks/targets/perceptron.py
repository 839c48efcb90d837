"""An MLP of an honest size: one graph, no break."""

from __future__ import annotations

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(256, 1024),
    nn.GELU(),
    nn.Linear(1024, 1024),
    nn.GELU(),
    nn.LayerNorm(1024),
    nn.Linear(1024, 10),
).eval()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randn(64, 256),)
