"""GD102 9:8-19"""

import torch


def forward(x):
    y = x.sin()
    bias = x.mean()
    y = torch.where(y.sum() > 0, y - bias, y)
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
