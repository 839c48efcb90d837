"""GD109 9:9-51"""

import numpy as np
import torch


def forward(x):
    v = x.sin().numpy()
    w = np.select([v < -0.5, v > 0.5], [v * 2, v])
    return torch.from_numpy(w).cos()


def example_inputs():
    return (torch.randn(4, 8),)
