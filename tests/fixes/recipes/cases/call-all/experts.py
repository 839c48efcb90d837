"""GD103 14:22-37"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, chosen):
        for i in chosen:
            expert = self.experts[i]
            x = expert(x).relu()
        return x


def example_inputs():
    return torch.randn(2, 4), torch.tensor([2, 0])
