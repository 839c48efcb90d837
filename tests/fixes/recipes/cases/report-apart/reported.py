"""GD102 8:5-"""

import torch


def forward(x):
    y = x.sin()
    if not (y < 0.5).all():
        print("large")
        y = y.clamp(max=0.5)
    return y.cos()
