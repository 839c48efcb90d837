"""GD102 8:20-31"""

import torch


def forward(x):
    y = x.sin()
    scale = torch.where(y.sum() > 0, 2.0, 0.5)
    return y * scale


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
