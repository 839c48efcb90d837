"""GD123 7:17-44"""

import torch


def forward(x):
    low, high = sorted([x.sum(), x.mean()])  # both of them
    return low - high
