"""GD104 8:13-33"""

import torch


def forward(x, ids):
    y = x.sin()
    first = (ids == 2).nonzero()[0]
    return y[:, first].sum()


def example_inputs():
    return (torch.randn(4, 5, requires_grad=True), torch.tensor([3, 2, 1, 2, 0]))
