"""Infinity and NaN in the places where eager mode has them."""

from __future__ import annotations

import torch
from torch import Tensor


def edges(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.log(x), x / x, torch.maximum(x, torch.zeros(()))


def example_inputs() -> tuple[Tensor]:
    inf, nan = float("inf"), float("nan")
    return (torch.tensor([-1.0, -0.0, 0.0, 1.0, inf, -inf, nan]),)
