"""GD102 10:8-39"""

import torch


def forward(x):
    y = x.sin()
    mask = y > 0.9 if x.shape[0] > 2 else None
    # Hide.
    if mask is not None and mask.any():
        y = y.masked_fill(mask, -1.0)  # there
    return y.cos()
