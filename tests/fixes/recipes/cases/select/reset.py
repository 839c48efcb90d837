"""GD102 14:12-33"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen += x.abs().sum(0)
        if self.seen.sum() > 4.0:
            scale = self.seen.mean()
            self.seen /= scale
            self.seen.sub_(x.sum(0), alpha=0.5)
        return x * self.seen
