"""Gamma correction with one factor for each image."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from kornia.enhance import adjust_gamma
from torch import Tensor


def adjusted(image: Tensor, gamma: Tensor) -> Tensor:
    return adjust_gamma(image, gamma, 1.2)


def build() -> Callable[..., object]:
    return adjusted


def example_inputs() -> Iterator[tuple[Tensor, ...]]:
    image = torch.rand(2, 3, 6, 5, generator=torch.Generator().manual_seed(0))
    yield image, torch.tensor([0.7, 1.3])
    yield image, torch.tensor([1.7, 0.3])
