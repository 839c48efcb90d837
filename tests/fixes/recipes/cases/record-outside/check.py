"""GD103 17:28-39"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.losses = []

    def forward(self, x):
        loss = self.linear(x).pow(2).mean()
        if torch.isnan(loss):
            raise RuntimeError(f"loss is {loss} after {len(self.losses)} steps")
        self.losses.append(loss.item())
        if len(self.losses) % 10 == 0:
            print(f"loss {loss.item():.3f}, lately {self.losses[-10:]}")
        return loss
