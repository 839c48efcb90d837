"""GD102 16:12-30"""

import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 8)
        self.one = nn.Linear(8, 2)
        self.other = nn.Linear(8, 3)

    def forward(self, batch):
        h = torch.relu(self.trunk(batch["x"]))
        if batch["task"] == 0:
            out = self.one(h)
        else:
            out = self.other(h)
        return out


def example_inputs():
    return [({"x": torch.randn(4, 8), "task": torch.tensor(task)},) for task in (0, 1)]
