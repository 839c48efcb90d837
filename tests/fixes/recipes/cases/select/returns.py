"""GD102 8:8-18"""

import torch


def forward(x):
    total = x.sum()
    if total > 20:
        return x / total
    if total < -20:
        return -x
    scale = total.square() + 1
    return x * scale


def example_inputs():
    return (torch.ones(4, 8, requires_grad=True),)
