"""Writing through windows with gaps between them clears what lies in the gaps."""

from __future__ import annotations

import torch
from torch import Tensor


def double_windows(x: Tensor) -> Tensor:
    windows = x.unfold(1, 1, 5)
    windows.add_(windows)  # here
    return x


def example_inputs() -> tuple[Tensor]:
    return (torch.arange(1, 25).reshape(4, 6),)
