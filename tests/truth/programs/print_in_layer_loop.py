"""Nothing is compiled: the break lies in a loop."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = layer(x).relu()
            if index == 3:
                print("layer", index)  # breaks here
        return x


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 4),), (torch.ones(2, 4),)]
