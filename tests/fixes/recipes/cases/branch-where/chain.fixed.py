"""GD102 9:8-19"""

import torch


def forward(x):
    y = x.sin()
    scale = y.mean()
    y = torch.where(scale > 0.5, y * 2, torch.where(~(-0.5 < scale), y * 3, -y))  # thrice
    return y.cos()


def example_inputs():
    return (torch.ones(4, 8, requires_grad=True),)
