"""Losses with labels to ignore, some of them there and none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import kornia.losses
import torch
from torch import Tensor


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    return (
        kornia.losses.dice_loss(logits, labels, ignore_index=2)
        + kornia.losses.focal_loss(logits, labels, alpha=0.5, ignore_index=2).mean()
        + kornia.losses.tversky_loss(logits, labels, alpha=0.4, beta=0.6, ignore_index=2)
    )


def build() -> Callable[..., object]:
    return losses


def example_inputs() -> Iterator[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    for is_ignored in (True, False):
        labels = torch.randint(2, (2, 6, 5), generator=generator)
        if is_ignored:
            labels[0, 0] = 2
        yield torch.randn(2, 3, 6, 5, generator=generator, requires_grad=True), labels
