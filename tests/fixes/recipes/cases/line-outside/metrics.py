"""GD104 18:20-36"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.hardest = {}

    def forward(self, x):
        """The largest of four."""
        out = self.linear(x).softmax(-1)
        best = out.amax(-1)
        with torch.no_grad():
            hard = best[best < 0.9]
            self.hardest["mean"] = hard.mean()
        return out
