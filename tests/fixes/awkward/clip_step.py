"""A train step with its own gradient clipping, loss scaling and a history of norms."""
import math

import torch
import torch.nn as nn


def clip_grad(parameters, max_norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    if total > max_norm:
        for g in grads:
            g.mul_(max_norm / (total + 1e-6))
    return total


class Step:
    def __init__(self, max_norm=0.5):
        self.model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.max_norm = max_norm
        self.history = []
        self.skipped = 0
        self.scale = 1.0

    def __call__(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.model(x) - y).pow(2).mean() * self.scale
        loss.backward()
        norm = clip_grad(self.model.parameters(), self.max_norm)
        self.history.append(norm.item())
        if not math.isfinite(self.history[-1]):
            self.skipped += 1
            return loss.detach()
        self.optimizer.step()
        return loss.detach()


def build():
    return Step()


def example_inputs():
    for _ in range(3):
        yield torch.randn(4, 10), torch.randn(4, 1)
