"""GD109 9:29-63"""

import torch
from numpy import nanpercentile


def forward(x):
    y = x.log()
    return y * torch.nanquantile(y, 50 / 100)


def example_inputs():
    return (torch.randn(4, 8),)
