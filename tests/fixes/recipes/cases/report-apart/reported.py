"""GD102 10:5-"""

import warnings

import torch


def forward(x):
    y = x.sin()
    if not (y < 0.5).all():
        warnings.warn("large", stacklevel=2)
        y = y.clamp(max=0.5)
    return y.cos()
