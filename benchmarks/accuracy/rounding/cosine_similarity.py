"""Cosines between many vectors."""

from __future__ import annotations

import torch
from torch import Tensor


def similar(x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.cosine_similarity(x[:, None], y[None], dim=-1)


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(20, 48), torch.randn(30, 48)
