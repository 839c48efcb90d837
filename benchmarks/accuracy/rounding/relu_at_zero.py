"""Gradients at the step of ReLU, abs and a clamp, at exactly 0 and 1."""

from __future__ import annotations

import torch
from torch import Tensor


def steps(x: Tensor) -> Tensor:
    return torch.relu(x) + x.abs() + x.clamp(0, 1) + torch.nn.functional.hardtanh(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.tensor([-1.0, -0.0, 0.0, 1.0, 2.0, 0.0, 1.0, -1.0], requires_grad=True),)
