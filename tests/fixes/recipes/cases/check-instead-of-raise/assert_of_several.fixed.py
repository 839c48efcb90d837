"""GD102 8:5-70"""

import torch


def forward(x):
    y = x.exp()
    torch._assert_async(~y.isnan().any() & (0 <= y.max()) & (y.max() < 1e6), "out of range")
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
