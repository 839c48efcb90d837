"""Models that a registry knows by name."""

import torch
from torch import nn

REGISTRY = {}


def register(name):
    def add(cls):
        REGISTRY[name] = cls
        return cls

    return add


@register("rescale")
class Rescale(nn.Module):
    def forward(self, x):
        peak = float(x.abs().max())
        return x / peak


@register("shuffle")
class Shuffle(nn.Module):
    def forward(self, x):
        order = torch.randperm(x.shape[0])
        print("order", order.tolist())
        return x[order]


class Chain(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


chain = Chain(Rescale(), Shuffle())
torch.compile(chain, backend="eager")(torch.randn(4, 8))
