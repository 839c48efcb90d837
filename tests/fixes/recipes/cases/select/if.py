"""GD102 9:8-19"""

import torch


def forward(x):
    y = x.sin()
    # Large inputs are damped.
    if y.sum() > 0:
        y = y * 0.5  # by half
    return y.cos()
