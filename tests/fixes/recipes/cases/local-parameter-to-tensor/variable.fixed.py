"""GD115 7:13-46"""

import torch


def forward(x):
    scale = torch.ones(8)
    return x.sin() * scale


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
