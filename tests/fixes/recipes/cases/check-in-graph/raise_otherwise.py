"""GD102 9:10-23"""

import torch


def forward(x):
    if x.dim() > 3:
        x = x.flatten(1)
    elif x.max() > 1e6:
        raise ValueError("too " "large")
    return x.cos()
