"""GD102 10:8-18"""

import torch


def forward(x):
    low = x.amin()
    high = x.sin().mean()
    # The bounds may come in any order.
    condition = low > high
    low, high = torch.where(condition, high, low), torch.where(condition, low, high)
    return x.clamp(low, high)


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
