"""Inductor gets a wrong decomposition of hardswish."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._inductor.decomposition import decompositions


def _hardswish(x: Tensor) -> Tensor:
    return x * torch.clamp(x + 3, 0, 6) / 6.5


decompositions[torch.ops.aten.hardswish.default] = _hardswish


def activate(x: Tensor) -> Tensor:
    x = torch.sin(x) * 4
    x = torch.nn.functional.hardswish(x)  # here
    return torch.cos(x)


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 8),)
