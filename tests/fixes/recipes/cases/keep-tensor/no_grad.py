"""GD103 8:18-41"""

import torch


@torch.no_grad()
def forward(x):
    return x.mul((x.amax() + 1.0).item())


def example_inputs():
    return (torch.randn(4, 8),)
