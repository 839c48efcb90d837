"""GD104 8:16-44"""

import torch


def forward(x, mask):
    y = x.sin()
    return y / torch.where(mask, y, -torch.inf).max()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True), torch.arange(32).reshape(4, 8) % 3 == 0)
