"""GD102 10:5-"""

import warnings

import torch


def forward(x):
    y = x.sin()
    if not torch.compiler.is_compiling() and not (y < 0.5).all():
        warnings.warn("large", stacklevel=2)
    y = torch.where(~(y < 0.5).all(), y.clamp(max=0.5), y)
    return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
