"""GD103 8:20-35"""

import torch


def forward(x):
    keep = x[:, 0] > -9
    y = torch.rand(int(keep.sum()), 8)
    return torch.where(keep[:, None], x + y, x)


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
