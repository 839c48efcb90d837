"""GD102 18:12-39"""

import torch
from torch import nn


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.exits = nn.ModuleList([nn.Linear(8, 3), nn.Linear(8, 3)])
        self.threshold = 0.9

    def forward(self, x):
        h = torch.relu(self.first(x))
        sure = self.exits[0](h).softmax(-1).max(-1).values
        if sure.min() > self.threshold:
            return self.exits[0](h)
        h = torch.relu(self.second(h))
        return self.exits[1](h)


def example_inputs():
    return (torch.randn(4, 8),)
