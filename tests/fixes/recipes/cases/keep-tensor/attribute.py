"""GD103 14:18-41"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, x):
        y = x.sin()
        before = self.temperature.item()
        return torch.clamp(y, max=before) * self.temperature
