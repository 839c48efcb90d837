"""GD504 8"""

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x.sin() + x * torch.tensor(-2.0, dtype=torch.float32)


def build():
    return Net()


def example_inputs():
    return (torch.randn(4, 3),)
