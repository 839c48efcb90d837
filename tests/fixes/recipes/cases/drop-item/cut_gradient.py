"""GD103 8:17-37"""

import torch


def forward(x):
    y = x.sin()
    return y / (y.abs().max().item() + 1e-6)
