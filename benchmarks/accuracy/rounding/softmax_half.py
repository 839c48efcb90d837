"""A softmax in float16."""

from __future__ import annotations

import torch
from torch import Tensor


def attend(scores: Tensor, values: Tensor) -> Tensor:
    return torch.softmax(scores * 0.3, dim=-1) @ values


def example_inputs() -> tuple[Tensor, Tensor]:
    return (torch.randn(4, 32, 32) * 4).half(), torch.randn(4, 32, 16).half()
