"""GD104 16:25-44"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Embedding(6, 8)
        self.used = 0

    def forward(self, x):
        codes = torch.cdist(x, self.codebook.weight).argmin(-1)
        loss = x.sin().mean()
        self.used = len(torch.unique(codes))
        return loss


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
