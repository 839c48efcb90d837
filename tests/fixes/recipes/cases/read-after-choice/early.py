"""GD103 8:8-16"""

import torch


def forward(x):
    y = x.mean()
    if y.item() > 0.5:
        return x * 0.5
    return x.cos() + y
