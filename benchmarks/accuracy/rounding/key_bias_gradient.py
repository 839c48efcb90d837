"""The gradient of an attention's key bias, which is 0 but for rounding."""

from __future__ import annotations

import torch
from torch import Tensor


def attend(x: Tensor, bias: Tensor) -> Tensor:
    scores = x @ (x + 0.1).mT / x.shape[-1] ** 0.5 + x @ bias[:, None]
    return (scores.softmax(-1) @ x).square().mean()


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 24, 32), torch.randn(32, requires_grad=True)
