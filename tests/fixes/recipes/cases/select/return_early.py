"""GD102 11:12-20"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x.sin()
        norm = y.norm()
        if norm < 1:
            return y

        # Too long: shorten it.
        factor = 1 / norm
        return y * factor
