"""GD504 8"""

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return (x.cpu().cumsum(0) + 1).to(x.device) * 2


def build():
    return Net()


def example_inputs():
    return (torch.randn(4, 3),)
