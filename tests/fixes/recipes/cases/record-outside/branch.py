"""GD101 17:13-65"""

import warnings

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        h = self.linear(x)
        if h.max() > -100.0:
            warnings.warn(f"large: {h.max():.1f}", stacklevel=2)
            h = h / 2
        return h.sin()
