"""The program's own mistake inside the region."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(x.sin())


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 4),), (torch.ones(2, 5),)]
