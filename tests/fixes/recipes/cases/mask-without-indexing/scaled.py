"""GD104 8:5-13"""

import torch


def forward(x):
    y = x.sin()
    y[y > 0] *= 2  # leaky the other way round
    return y.cos()
