"""MobileNet v2 with random weights, as torchvision has it, for a GPU."""

from __future__ import annotations

import torch
from torchvision.models import mobilenet_v2

torch.manual_seed(0)
model = mobilenet_v2(weights=None).eval()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randn(32, 3, 224, 224),)
