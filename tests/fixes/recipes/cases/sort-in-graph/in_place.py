"""GD123 8:5-17"""

import torch


def forward(x):
    parts = [x.sum(), x.mean(), x.max()]
    parts.sort()
    return parts[0] - parts[1] * parts[2]
