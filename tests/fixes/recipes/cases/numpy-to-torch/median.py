"""GD109 9:29-63"""

import torch
from numpy import nanpercentile


def forward(x):
    y = x.log()
    return y * torch.tensor(nanpercentile(y.numpy(), 50, None))


def example_inputs():
    return (torch.randn(4, 8),)
