"""A chain of ``forward``s: torch's printed stack shows the innermost one only."""

import torch
from torch import nn


class Inner(nn.Module):
    def forward(self, x):
        x = x.sin()
        print("inner")  # breaks here
        return x.cos()


class Middle(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x + 1) + 1


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.middle = Middle()

    def forward(self, x):
        return self.middle(x * 2) * 2


def build():
    return Outer()


def example_inputs():
    return [(torch.ones(2, 4),)]
