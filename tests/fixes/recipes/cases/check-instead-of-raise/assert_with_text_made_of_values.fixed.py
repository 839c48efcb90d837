"""GD102 8:12-25"""

import torch


def forward(x):
    y = x.exp()
    torch._assert_async(y.max() < 1e6, "AssertionError: not (y.max() < 1000000.0)")
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
