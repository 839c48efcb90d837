"""GD105 10:20-34"""

import os

import torch

_CPU_COUNT = os.cpu_count()


def forward(x):
    y = x.sin()
    return y * min(_CPU_COUNT, 2)


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
