"""GD102 10:8-18"""

import torch


def forward(x):
    low = x.amin()
    high = x.sin().mean()
    # The bounds may come in any order.
    if low > high:
        low, high = high, low
    return x.clamp(low, high)
