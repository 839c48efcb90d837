"""Distance transforms in two and three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from kornia.contrib import distance_transform
from torch import Tensor


def distances(image: Tensor, volume: Tensor) -> tuple[Tensor, Tensor]:
    return distance_transform(image, kernel_size=3), distance_transform(volume, kernel_size=3)


def build() -> Callable[..., object]:
    return distances


def example_inputs() -> Iterator[tuple[Tensor, ...]]:
    image, volume = torch.zeros(1, 1, 8, 9), torch.zeros(1, 1, 5, 6, 7)
    image[..., 3, 4] = volume[..., 2, 3, 3] = 1
    yield image, volume
    yield 1 - image, 1 - volume
