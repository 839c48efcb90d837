"""GD103 8:13-28"""

import torch


def forward(x):
    y = x.sin()
    shift = y.mean()
    return y - shift


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
