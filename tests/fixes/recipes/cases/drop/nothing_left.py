"""GD102 11:12-29"""

import torch


def forward(x):
    active = torch.ones_like(x, dtype=torch.bool)
    for _ in range(3):
        x = torch.where(active, x / 2, x)
        active = active & (x > 0.2)
        if active.sum() == 0:
            break
    return x


def example_inputs():
    return [(torch.rand(4),), (torch.zeros(4),)]
