"""GD123 8:13-40"""

import torch


def forward(x):
    parts = [x.sum(), x.mean(), x.max()]
    parts = list(torch.stack(parts).sort(descending=True).values)
    return parts[0] - parts[1], parts


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
