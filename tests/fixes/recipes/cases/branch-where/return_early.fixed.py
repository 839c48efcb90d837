"""GD102 11:12-20"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x.sin()
        norm = y.norm()
        condition = norm < 1
        # Too long: shorten it.
        factor = 1 / norm
        return torch.where(condition, y, y * factor)


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
