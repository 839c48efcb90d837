"""GD504 8"""

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        scale = x.sum().cpu() + 1
        return x * scale.to(x.device)


def build():
    return Net()


def example_inputs():
    return (torch.randn(4, 3),)
