"""GD102 8:8-22"""

import torch


def forward(x):
    y = x.cos()
    if y.mean() > 0.5:
        print("large")
        return x * 0.5
    return x + y
