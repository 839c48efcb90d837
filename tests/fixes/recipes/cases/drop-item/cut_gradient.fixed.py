"""GD103 8:17-37"""

import torch


def forward(x):
    y = x.sin()
    return y / (y.abs().max() + 1e-6)


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
