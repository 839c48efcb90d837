"""GD109 9:33-62"""

import numpy as np
import torch


def forward(x):
    y = x.log()
    return y - torch.nanmean(y, dim=0)


def example_inputs():
    return (torch.randn(4, 8),)
