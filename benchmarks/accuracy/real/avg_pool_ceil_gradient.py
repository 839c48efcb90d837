"""The last window of a pooling with ceil_mode gets a wrong gradient."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d


def pool(image: Tensor) -> Tensor:
    pooled = avg_pool2d(image * 2, 3, 2, ceil_mode=True)  # here
    return pooled.sum(dim=1)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(1, 2, 8, 8, requires_grad=True),)
