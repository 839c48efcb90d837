"""GD104 8:19-26"""

import torch


def forward(x, noise, mask):
    y = x.sin()
    noise.copy_(torch.where(mask, x * 0.5 + noise, noise))
    return y + noise


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True), torch.zeros(4, 8), torch.arange(32).reshape(4, 8) % 3 == 0)
