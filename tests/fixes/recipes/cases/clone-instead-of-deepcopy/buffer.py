"""GD108 16:20-45"""

import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(8.0))

    def forward(self, x):
        y = x.sin()
        return y * copy.deepcopy(self.table).mul_(2.0)
