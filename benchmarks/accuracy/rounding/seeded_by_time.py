"""A stream seeded by the time: no two runs in eager mode agree."""

from __future__ import annotations

import time

import torch
from torch import Tensor


@torch.compiler.disable
def _seed() -> None:
    torch.manual_seed(time.time_ns() % 2**32)


def sampled(x: Tensor) -> Tensor:
    _seed()
    return x + torch.rand_like(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(6),)
