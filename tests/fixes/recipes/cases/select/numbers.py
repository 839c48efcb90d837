"""GD102 8:20-31"""

import torch


def forward(x):
    y = x.sin()
    scale = 2.0 if y.sum() > 0 else 0.5
    return y * scale
