"""GD104 8:12-19"""

import torch


def forward(x, keep):
    y = x.sin()
    return torch.where(keep.unsqueeze(-1), y, 0).sum(0) / keep.sum()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True), torch.tensor([True, False, True, True]))
