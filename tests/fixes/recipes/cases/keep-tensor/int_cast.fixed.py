"""GD103 8:13-31"""

import torch


def forward(x, lengths):
    y = x.sin()
    count = lengths.sum().long()
    scale = 2.0
    scale *= count
    return y / scale + (y > count)


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True), torch.tensor([1, 2, 3]))
