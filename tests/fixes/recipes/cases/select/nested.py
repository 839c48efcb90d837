"""GD102 9:12-25"""

import torch


def forward(x):
    y, total = x.sin(), x.sum() * 0
    for row in y:
        if row.sum() > 1:
            if row.max() > 0.9:
                row = row * 0.5
            else:
                row = row + 1
        elif row.mean() < -0.5:
            continue
        total = total + row.square().sum()
    return total


def example_inputs():
    return (torch.ones(4, 8, requires_grad=True),)
