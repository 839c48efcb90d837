"""``warnings.warn`` with a text that is made while tracing."""

import warnings

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        x = x.sin()
        warnings.warn(f"a row of {x.shape[1]}", stacklevel=2)  # breaks here
        return x.cos()


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 4),)]
