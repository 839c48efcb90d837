"""GD104 8:13-29"""

import torch


def forward(prediction, target, mask):
    difference = prediction.sin() - target
    loss = (difference[mask] ** 2).mean()
    return 2.0 * loss


def example_inputs():
    mask = torch.arange(32).reshape(4, 8) % 3 == 0
    return (torch.randn(4, 8, requires_grad=True), torch.randn(4, 8), mask)
