"""GD102 20:9-"""

import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.zeros(4, 8))
        self.register_buffer("is_ready", torch.tensor(False))

    def prepare(self, rows):
        self.codes.copy_(rows[:4].detach())
        self.is_ready.fill_(True)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        # The first batch is the first codebook.
        if not self.is_ready:
            self.prepare(rows)
        nearest = torch.cdist(rows, self.codes).argmin(-1)
        return self.codes[nearest].view_as(x)


def example_inputs():
    return [(torch.randn(2, 4, 8),), (torch.randn(2, 4, 8),)]
