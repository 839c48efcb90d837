"""The remainder of -0.0 is -0.0 in eager mode, and 0.0 in compiled code: dividing by it tells."""

from __future__ import annotations

import torch
from torch import Tensor


def phase(x: Tensor, period: Tensor) -> Tensor:
    rest = torch.remainder(x, period)  # here
    return 1 / rest


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.tensor([-7.0, 7.5, -0.0, 1.0]), torch.tensor([2.0, -2.0, 3.0, 3.0])
