"""A call of a function under ``torch.compiler.disable``."""

import torch
from torch import nn


@torch.compiler.disable
def norm(x):
    return x / x.norm()


class Net(nn.Module):
    def forward(self, x):
        x = x.sin()
        x = norm(x)  # breaks here
        return x.cos()


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 4),)]
