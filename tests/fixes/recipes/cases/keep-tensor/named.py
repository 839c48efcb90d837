"""GD103 14:19-39"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        largest = y.abs().max().item()  # a number
        return torch.tanh(y / largest)
