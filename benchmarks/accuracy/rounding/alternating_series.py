"""exp(-8) as an alternating series, whose terms cancel."""

from __future__ import annotations

import torch
from torch import Tensor


def series(x: Tensor) -> Tensor:
    term, total = torch.ones_like(x), torch.ones_like(x)
    for count in range(1, 40):
        term = term * x / count
        total = total + term
    return total.mean(-1)


def example_inputs() -> tuple[Tensor]:
    return (-8 - torch.rand(4, 200),)
