"""GD109 9:46-66"""

import numpy as np
import torch


def forward(x):
    v = x.log().numpy()
    return x.sin().sum(1) * torch.from_numpy(np.nan_to_num(v, nan=-np.inf, posinf=np.inf, neginf=-np.inf).max(axis=1))


def example_inputs():
    return (torch.randn(4, 8),)
