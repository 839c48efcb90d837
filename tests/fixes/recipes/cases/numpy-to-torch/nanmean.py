"""GD109 9:33-62"""

import numpy as np
import torch


def forward(x):
    y = x.log()
    return y - torch.from_numpy(np.nanmean(y.numpy(), axis=0))


def example_inputs():
    return (torch.randn(4, 8),)
