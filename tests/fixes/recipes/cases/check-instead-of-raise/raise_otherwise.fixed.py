"""GD102 9:10-23"""

import torch


def forward(x):
    if x.dim() > 3:
        x = x.flatten(1)
    else:
        torch._assert_async(~(x.max() > 1e6), "too " "large")
    return x.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
