"""A module that makes its state in the first call."""

import torch
from torch import nn


class LazyBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.ready = False
        self.scale = nn.Parameter(torch.ones(1))

    def setup(self, x):
        self.bias = nn.Parameter(torch.zeros(x.shape[-1]))
        self.ready = True

    def forward(self, x):
        if not self.ready:
            self.setup(x)
        out = x * self.scale + self.bias
        self.last_norm = out.norm().item()
        return out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lazy = LazyBias()
        self.compile(backend="eager")

    def forward(self, x):
        return self.lazy(x).relu()


model = Model()
model(torch.randn(2, 8))
model(torch.randn(2, 8))
