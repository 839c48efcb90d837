"""GD103 14:24-43"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("stats", torch.ones(2))

    def forward(self, x):
        self.stats += torch.stack([x.detach().sum(), x.new_ones(())])
        total, count = self.stats.tolist()
        return x * (total / count)
