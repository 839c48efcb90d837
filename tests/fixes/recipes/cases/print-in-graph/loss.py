"""GD103 13:25-36"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x * 2
        loss = y.mean()
        for i in range(2):
            y = y + loss
            print(i, f"{loss.item():.4f}", f"{y.norm():.2e}")
        return y
