"""EfficientNet-b0 with random weights, as torchvision has it: so many small kernels that a GPU
waits for its host.
"""

from __future__ import annotations

import torch
from torchvision.models import efficientnet_b0

torch.manual_seed(0)
model = efficientnet_b0(weights=None).eval()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randn(32, 3, 224, 224),)
