"""GD112 10:5-26"""

import torch

weight = torch.nn.Parameter(torch.ones(8))


def forward(x):
    loss = (x * weight).sum()
    loss.sum().backward()
    gradient = weight.grad.clone()
    weight.grad = None
    return gradient


def example_inputs():
    return (torch.randn(4, 8),)
