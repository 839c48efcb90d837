"""GD102 8:8-20"""

import torch


def forward(x):
    y = x.sin()
    if y.mean() > 0:
        z = y * 2
    else:
        # Otherwise the other way.
        z = y.tanh()
    return z.cos()
