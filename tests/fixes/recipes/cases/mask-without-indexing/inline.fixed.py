"""GD104 8:15-54"""

import torch


def forward(x):
    y = x.sin()
    return -(torch.where((y[:, 0] > -2.0).unsqueeze(-1), y, 0).sum(dim=0) / (y[:, 0] > -2.0).sum())


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
