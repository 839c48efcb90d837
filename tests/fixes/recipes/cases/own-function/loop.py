"""GD111 18:17-50"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        x = x.sin()
        for i, layer in enumerate(self.layers):
            # Each layer's own.
            x = torch.relu(layer(x))
            if i == 3:
                print("layer", i, tuple(x.shape))
        return x.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
