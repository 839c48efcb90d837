"""GD100 7:42-68"""

import torch


def forward(x):
    scale = torch.full((4,), 2.0, device=torch.get_default_device())
    return x * scale


def example_inputs():
    return (torch.randn(3, 4, requires_grad=True),)
