"""GD102 8:5-"""

import torch


def forward(x):
    y = x.sin()
    y = torch.where(y.sum() != 0, y * 2, y)
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
