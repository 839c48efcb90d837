"""Augmentations that are applied at random."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from kornia.augmentation import RandomBrightness, RandomHorizontalFlip
from torch import Tensor, nn


def build() -> nn.Module:
    return nn.Sequential(
        RandomBrightness((0.7, 1.3), p=0.5), RandomHorizontalFlip(p=0.5, p_batch=0.5)
    )


def example_inputs() -> Iterator[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        yield (torch.rand(2, 3, 8, 8, generator=generator),)
