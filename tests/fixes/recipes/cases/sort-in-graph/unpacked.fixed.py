"""GD123 7:17-44"""

import torch


def forward(x):
    low, high = torch.stack([x.sum(), x.mean()]).sort().values  # both of them
    return low - high


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
