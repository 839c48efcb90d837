"""GD108 16:17-44"""

import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.initial = {"hidden": torch.zeros(1, 8), "cell": torch.ones(1, 8)}

    def forward(self, x):
        y = x.sin()
        state = copy.deepcopy(self.initial)
        state["hidden"] += 1.0
        return y + state["hidden"] * state["cell"]
