"""Functions whose vectorized form rounds otherwise."""

from __future__ import annotations

import torch
from torch import Tensor


def chain(x: Tensor) -> Tensor:
    y = torch.exp(torch.sin(x)) + torch.log1p(x * x)
    return torch.pow(y, 1.7) * torch.atan(x) + torch.erf(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.linspace(-6, 6, 3000),)
