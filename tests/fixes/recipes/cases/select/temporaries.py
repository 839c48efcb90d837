"""GD102 9:5-"""

import torch


def forward(x):
    y = x.sin()
    is_large = y.sum() > 0
    if is_large:
        half = y * 0.5
        y = half.sin() + half
    else:
        square = y.square()
        y = square.cos()
    return y.cos()
