"""GD103 8:16-67"""

import torch


def forward(x, labels, n_classes: int):
    y = x.sin()
    return y * torch.nn.functional.one_hot(labels, num_classes=-1)


def example_inputs():
    return (torch.randn(3, 3, requires_grad=True), torch.tensor([0, 2, 1]), 3)
