"""GD109 8:12-58"""

import numpy as np
import torch


def forward(x):
    bins = np.digitize(x.sin().numpy(), [-0.5, 0.0, 0.5])
    return x * torch.from_numpy(bins)


def example_inputs():
    return (torch.randn(4, 8),)
