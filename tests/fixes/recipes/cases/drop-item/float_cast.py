"""GD103 8:13-28"""

import torch


def forward(x):
    y = x.sin()
    shift = float(y.mean())
    return y - shift
