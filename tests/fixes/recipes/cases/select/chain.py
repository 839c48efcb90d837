"""GD102 9:8-19"""

import torch


def forward(x):
    y = x.sin()
    scale = y.mean()
    if scale > 0.5:
        y = y * 2
    elif not -0.5 < scale:
        y = y * 3  # thrice
    else:
        y = -y
    return y.cos()


def example_inputs():
    return (torch.ones(4, 8, requires_grad=True),)
