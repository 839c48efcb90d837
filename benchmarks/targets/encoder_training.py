"""Two layers of a transformer's encoder with dropout, for a forward and a backward pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn

torch.manual_seed(0)
model = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, activation="gelu"), 2
)


def example_inputs() -> tuple[Tensor]:
    """The arguments of the call."""
    return (torch.randn(32, 256, 512),)
