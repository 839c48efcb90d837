"""GD109 8:12-58"""

import numpy as np
import torch


def forward(x):
    bins = np.searchsorted([-0.5, 0.0, 0.5], x.sin().numpy(), side='right')
    return x * torch.from_numpy(bins)


def example_inputs():
    return (torch.randn(4, 8),)
