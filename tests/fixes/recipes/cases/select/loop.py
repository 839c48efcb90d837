"""GD102 13:12-24"""

import torch


def forward(x):
    y = x.tanh()
    for _ in range(4):
        z = torch.cos(y)
        change = (z - y).abs().max()
        y = z * 0.9  # damped
        # Near enough.
        if change < 0.5:
            y = y + 1
            break
        y = y - 0.1
    return y.sin()


def example_inputs():
    return (torch.ones(4, 8, requires_grad=True),)
