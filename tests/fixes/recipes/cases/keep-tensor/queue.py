"""GD103 15:17-32"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(16, 8))
        self.register_buffer("start", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        rows = x.shape[0]
        start = int(self.start)
        self.queue[start : start + rows] = x.detach()
        self.start[0] = (start + rows) % 16
        return x + self.queue.mean()
