"""GD104 8:12-20"""

import torch


def forward(x):
    y = x.sin()
    return y[y > 0].sum() + y.mean()
