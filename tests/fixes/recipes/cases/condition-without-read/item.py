"""GD103 9:8-22"""

import torch


def forward(x):
    y = x.sin()
    # Too large.
    if y.max().item() > 0.5:
        y = y * 0.5
    return y.cos()
