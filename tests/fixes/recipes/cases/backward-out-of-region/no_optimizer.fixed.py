"""GD112 10:5-26"""

import torch

weight = torch.nn.Parameter(torch.ones(8))


@torch._dynamo.decorators.skip
def forward(x):
    loss = _forward_loss(x)
    loss.sum().backward()
    gradient = weight.grad.clone()
    weight.grad = None
    return gradient


def _forward_loss(x):
    loss = (x * weight).sum()
    return loss


def example_inputs():
    return (torch.randn(4, 8),)
