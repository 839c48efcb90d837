"""GD118 8:12-28"""

import torch


def forward(x):
    y = x.sin()
    # The usual way.
    y = y * 2
    y = y + 1  # more
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
