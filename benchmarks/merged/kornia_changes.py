"""A target for each merged change of kornia 0.9.0 that removed graph breaks: ``build()`` and
``example_inputs()`` of the change that ``KORNIA_CHANGE`` names.

Two changes have none: 3916 and 3922 are about devices other than the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from kornia import augmentation
from kornia.contrib import distance_transform
from kornia.core.utils import is_autocast_enabled
from kornia.enhance import adjust_contrast, adjust_gamma, equalize, posterize, sharpness, solarize
from kornia.geometry.bbox import bbox_to_mask
from kornia.geometry.transform import get_affine_matrix2d
from kornia.losses import dice_loss
from torch import Tensor

Built = Callable[..., Any]
Calls = list[tuple[Any, ...]]


def _images(*, width: int = 8) -> Calls:
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(2, 3, 8, width, generator=generator),) for _ in range(2)]


def _with(*values: Any) -> Calls:
    return [(*call, value) for call, value in zip(_images(), values, strict=True)]


def _masks() -> Calls:
    generator = torch.Generator().manual_seed(0)
    return [
        (
            torch.randn(2, 3, 4, 4, generator=generator),
            torch.randint(most, (2, 4, 4), generator=generator),
        )
        for most in (3, 2)
    ]


def _distances() -> Calls:
    image = torch.zeros(1, 1, 8, 9)
    image[..., 3, 4] = 1
    return [(image,), (1 - image,)]


def _boxes() -> Calls:
    box = torch.tensor([[[1.0, 1.0], [3.0, 1.0], [3.0, 2.0], [1.0, 2.0]]])
    return [(box,), (box + 1,)]


def _colored(image: Tensor) -> Tensor:
    from kornia.color import ColorMap, apply_colormap

    return apply_colormap(image, ColorMap("autumn", 16))


def _warped(image: Tensor) -> Tensor:
    shift = torch.zeros(image.shape[0], 2)
    return get_affine_matrix2d(shift, shift, 1 + shift, shift[:, 0])


def _cast(image: Tensor) -> Tensor:
    return image * 2 if is_autocast_enabled() else image


def _dice(logits: Tensor, labels: Tensor) -> Tensor:
    return dice_loss(logits, labels, ignore_index=2)


_ONE = torch.tensor([0.7, 1.3])
_OTHER = torch.tensor([1.7, 0.3])

CHANGES: dict[str, tuple[Callable[[], Built], Calls]] = {
    "3786": (lambda: adjust_gamma, _with(_ONE, _OTHER)),
    "3787": (lambda: adjust_contrast, _with(_ONE, _OTHER)),
    "3788": (lambda: lambda image: distance_transform(image, kernel_size=3), _distances()),
    "3789": (lambda: posterize, _with(torch.tensor(3), torch.tensor(8))),
    "3790": (lambda: sharpness, _with(_ONE, torch.tensor([0.0, 1.0]))),
    "3791": (lambda: _colored, [(call[0][0, :1],) for call in _images()]),
    "3792": (lambda: _dice, _masks()),
    "3793": (lambda: augmentation.RandomHorizontalFlip(p=0.5, p_batch=0.5), _images(width=6)),
    "3794": (lambda: augmentation.RandomBrightness((0.7, 1.3), p=0.5), _images()),
    "3797": (lambda: augmentation.RandomRotation(30.0, p=1.0), _images()),
    "3798": (lambda: augmentation.RandomMotionBlur(3, 35.0, 0.5, p=1.0), _images()),
    "3799": (lambda: augmentation.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0), _images()),
    "3800": (lambda: augmentation.Resize((6, 5), p=1.0), _images()),
    "3802": (lambda: _cast, _images()),
    "3805": (lambda: solarize, _with(torch.tensor([0.3, 0.6]), torch.tensor([0.5, 0.2]))),
    "3806": (lambda: lambda box: bbox_to_mask(box, 5, 5), _boxes()),
    "3808": (lambda: augmentation.Resize((8, 8), p=1.0), _images()),
    "3809": (lambda: augmentation.CenterCrop(4, p=1.0), _images()),
    "3823": (lambda: augmentation.RandomChannelShuffle(p=1.0), _images()),
    "3824": (lambda: posterize, _with(torch.tensor([3, 0]), torch.tensor([8, 4]))),
    "3832": (lambda: equalize, _images()),
    "3842": (lambda: augmentation.RandomCrop((4, 4), p=1.0), _images()),
    "3856": (lambda: augmentation.RandomErasing(p=1.0), _images()),
}


def build() -> Built:
    return CHANGES[os.environ["KORNIA_CHANGE"]][0]()


def example_inputs() -> Calls:
    return CHANGES[os.environ["KORNIA_CHANGE"]][1]
