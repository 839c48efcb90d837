"""GD102 10:11-30"""

import torch

def check(good, why):
    if not good:
        raise ValueError(why)

def forward(x):
    check(any(x.sum(1) < 1e6), "all of them are large")
    return x * 2


def example_inputs():
    return (torch.randn(3, 4, requires_grad=True),)
