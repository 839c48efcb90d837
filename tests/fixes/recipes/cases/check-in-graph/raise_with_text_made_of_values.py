"""GD102 10:12-44"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x.exp()
        if y.max() > 1e6 or y.isnan().any():
            raise ValueError(f"too large: {y.max()}")
        return y.cos()
