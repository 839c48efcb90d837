"""A line is printed in eager mode alone."""

from __future__ import annotations

import torch
from torch import Tensor


def report(x: Tensor) -> Tensor:
    total = torch.sin(x).sum()
    if not torch.compiler.is_compiling():  # here
        print("one batch more")
    return total * 2


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(6),)
