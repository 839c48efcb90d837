"""GD118 8:29-45"""

import torch


def forward(x):
    y = x.sin()
    if y.dim() == 2 and not y.is_inference():
        y = y * 2
    return y.cos()
