"""GD102 8:15-26"""

import torch


def forward(x):
    y = x.sin()
    z = (y if y.sum() > 0 else -y).cos() + 1
    return z * 2
