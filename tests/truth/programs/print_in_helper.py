"""One break, logged for the caller that tries to inline the helper and for the helper's own
frame."""

import torch
from torch import nn


def report(x):
    y = x + 1
    print("size", x.shape[0])  # breaks here
    return y * 2


class Net(nn.Module):
    def forward(self, x):
        x = x.sin()
        x = report(x)
        return x.cos()


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 4),)]
