"""GD105 18:30-45"""

import random

import torch
from torch import nn


class Conditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.empty = nn.Parameter(torch.zeros(8))
        self.dropped = 0.5

    def forward(self, x, condition):
        y = self.linear(x)
        if self.training and random.random() < self.dropped:
            condition = self.empty.expand_as(x)
        return y + condition


def example_inputs():
    return [(torch.randn(4, 8), torch.randn(4, 8)) for _ in range(4)]
