"""GD103 9:17-32"""

import torch


def forward(x):
    y = x.sin()

    y = y * 2 + float(y.mean()) * 0.5
    return y.cos()
