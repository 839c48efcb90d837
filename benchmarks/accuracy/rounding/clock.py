"""A result that depends on the clock."""

from __future__ import annotations

import time

import torch
from torch import Tensor


@torch.compiler.disable
def _now(x: Tensor) -> Tensor:
    return x.new_tensor(time.perf_counter_ns() % 1000)


def stamped(x: Tensor) -> Tensor:
    return torch.sin(x) + _now(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(6),)
