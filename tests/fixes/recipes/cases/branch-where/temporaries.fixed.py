"""GD102 9:5-"""

import torch


def forward(x):
    y = x.sin()
    is_large = y.sum() > 0
    half = y * 0.5
    square = y.square()
    y = torch.where(is_large, half.sin() + half, square.cos())
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
