"""GD103 15:16-34"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.counts = {"kept": 0}

    def forward(self, x):
        y = self.linear(x)
        kept = int((y > 0).sum())
        self.counts["kept"] += kept
        share = kept / 32
        return {"y": y.relu(), "share": share}
