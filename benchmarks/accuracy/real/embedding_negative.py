"""A negative index: another exception in compiled code than in eager mode."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding


def look_up(tokens: Tensor, weight: Tensor) -> Tensor:
    return embedding(tokens, weight * 2)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.tensor([2, -2, 4]), torch.arange(10.0).reshape(5, 2)
