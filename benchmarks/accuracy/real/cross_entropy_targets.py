"""binary_cross_entropy refuses targets above 1 in eager mode alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy


def loss(target: Tensor) -> Tensor:
    return binary_cross_entropy(torch.ones_like(target), target)  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.full((4, 4), 1.5),)
