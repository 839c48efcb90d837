"""A layer that keeps statistics of what it sees: a list, a dict, a moving average, a largest value so far."""

from collections import defaultdict

import torch
from torch import nn


class Watched(nn.Module):
    def __init__(self, dim=8, momentum=0.9):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, dim)
        self.momentum = momentum
        self.history = []
        self.stats = defaultdict(list)
        self.largest = 0.0
        self.register_buffer("average", torch.zeros(()))

    def forward(self, x, target):
        h = torch.tanh(self.inner(x))
        self.stats["hidden"].append(h.abs().mean().item())
        y = self.outer(h)
        error = (y - target).pow(2).mean()
        self.history.append(float(error))
        self.average = self.momentum * self.average + (1 - self.momentum) * error.detach()
        peak = y.abs().max()
        if peak > self.largest:
            self.largest = peak.item()
        self.stats["peak"].append(round(peak.item(), 3))
        return y, error


def build():
    return Watched()


def example_inputs():
    return [(torch.randn(4, 8), torch.randn(4, 8)) for _ in range(2)]
