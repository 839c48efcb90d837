"""Rotary positions that are cached for the longest sequence so far."""

import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.longest = 0
        self.cos = None

    def build(self, length):
        position = torch.arange(length).float()
        frequency = 1.0 / 10000 ** (torch.arange(0, self.dim, 2).float() / self.dim)
        self.cos = torch.outer(position, frequency).cos()
        self.longest = length

    def forward(self, x, positions):
        needed = int(positions.max()) + 1
        if needed > self.longest:
            self.build(needed)
        cos = self.cos[positions]
        return x * torch.cat([cos, cos], dim=-1)


class Transformer(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.rotary = Rotary(dim)
        self.layers = nn.ModuleList()
        for _ in range(2):
            self.layers.append(nn.Linear(dim, dim))

    @torch.compile(backend="eager")
    def forward(self, x, positions):
        x = self.rotary(x, positions)
        for layer in self.layers:
            x = layer(x).relu()
        return x


Transformer()(torch.randn(1, 4, 8), torch.arange(4)[None])
