"""GD104 8:16-34"""

import torch


def forward(x):
    y = x.sin()
    negative = torch.where(y < 0)
    shift = y[negative].mean()
    y = y + shift
    y[negative] = 0.0
    return y.cos()
