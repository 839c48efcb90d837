"""GD123 8:13-40"""

import torch


def forward(x):
    parts = [x.sum(), x.mean(), x.max()]
    parts = sorted(parts, reverse=True)
    return parts[0] - parts[1], parts
