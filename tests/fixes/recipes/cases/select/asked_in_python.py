"""GD102 14:12-49"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        if self.training and y.abs().max() > 1.0:
            y = torch.tanh(y)
        return y
