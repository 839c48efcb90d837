"""Adaptive computation time: each position decides when it has thought enough."""

import torch
import torch.nn as nn


class ACT(nn.Module):
    def __init__(self, dim=8, max_steps=4, threshold=0.95):
        super().__init__()
        self.cell = nn.GRUCell(dim, dim)
        self.halt = nn.Linear(dim, 1)
        self.max_steps = max_steps
        self.threshold = threshold
        self.ponder = 0.0

    def forward(self, x):
        state = torch.zeros_like(x)
        output = torch.zeros_like(x)
        halted = torch.zeros(x.size(0))
        remaining = torch.ones(x.size(0))
        step = 0
        while (halted < self.threshold).any() and step < self.max_steps:
            state = self.cell(x, state)
            p = torch.sigmoid(self.halt(state)).squeeze(-1)
            p = torch.where(halted + p > self.threshold, remaining, p)
            output = output + p[:, None] * state
            halted = halted + p
            remaining = (1 - halted).clamp(min=0)
            step += 1
        self.ponder = remaining.mean().item() + step
        return output


def example_inputs():
    torch.manual_seed(35)
    return (torch.randn(5, 8),)
