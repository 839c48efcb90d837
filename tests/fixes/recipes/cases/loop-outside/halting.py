"""GD102 17:9-"""

import torch
from torch import nn


class Ponder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(8, 8)
        self.halt = nn.Linear(8, 1)

    def forward(self, x):
        state = torch.zeros_like(x)
        halted = torch.zeros(x.shape[0])
        step = 0
        while (halted < 0.95).any() and step < 3:
            state = torch.tanh(self.cell(x + state))
            halted = halted + self.halt(state).squeeze(-1).sigmoid()
            step += 1
        return state


def example_inputs():
    return (torch.randn(4, 8),)
