"""GD111 18:17-50"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        x = x.sin()
        x = self._forward_loop(x)
        return x.cos()

    def _forward_loop(self, x):
        for i, layer in enumerate(self.layers):
            x = self._forward_step(x, layer, i)
        return x

    def _forward_step(self, x, layer, i):
        # Each layer's own.
        x = torch.relu(layer(x))
        if i == 3:
            print("layer", i, tuple(x.shape))
        return x


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
