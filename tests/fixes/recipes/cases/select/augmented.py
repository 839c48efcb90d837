"""GD102 9:8-19"""

import torch


def forward(x):
    y = x.sin()
    bias = x.mean()
    if y.sum() > 0:
        y -= bias
    return y.cos()
