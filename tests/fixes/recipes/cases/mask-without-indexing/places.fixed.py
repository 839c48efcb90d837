"""GD104 8:16-34"""

import torch


def forward(x):
    y = x.sin()
    negative = y < 0
    shift = torch.where(negative, y, 0).sum() / negative.sum()
    y = y + shift
    y[negative] = 0.0
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
