"""GD109 9:46-66"""

import numpy as np
import torch


def forward(x):
    v = x.log().numpy()
    return x.sin().sum(1) * torch.from_numpy(np.nanmax(v, axis=1))


def example_inputs():
    return (torch.randn(4, 8),)
