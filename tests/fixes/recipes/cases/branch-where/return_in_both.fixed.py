"""GD102 9:9-"""

import torch
from torch import nn


class Net(nn.Module):
    def scaled(self, y):
        return torch.where((y > 0).any() | (y.sum() > 3), y * 2, y * 3)

    def forward(self, x):
        return self.scaled(x.sin()).cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
