"""GD102 9:8-23"""

import torch


def forward(x):
    first = x.sin()
    # Sure enough.
    is_early = first.max() > 5
    early_value = first  # early
    for _ in range(2):
        x = x + first.cos()
    if x.shape[0] > 100:
        return torch.where(is_early, early_value, x)
    return torch.where(is_early, early_value, x.tanh())


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
