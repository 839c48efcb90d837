"""GD102 16:20-42"""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
        self.layerdrop = 0.0

    def forward(self, x):
        for layer in self.layers:
            if self.training:
                drawn = torch.rand([])
                if drawn < self.layerdrop:
                    continue
            x = torch.nn.functional.dropout(layer(x), training=self.training)
        return x


def build():
    return Net()


def example_inputs():
    return (torch.randn(4, 8),)
