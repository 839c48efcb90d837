"""GD102 9:9-"""

import torch
from torch import nn


class Net(nn.Module):
    def scaled(self, y):
        if (y > 0).any() or y.sum() > 3:
            return y * 2
        else:
            return y * 3

    def forward(self, x):
        return self.scaled(x.sin()).cos()
