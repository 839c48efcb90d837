"""GD118 8:12-28"""

import torch


def forward(x):
    y = x.sin()
    if not y.is_inference():
        # The usual way.
        y = y * 2
        y = y + 1  # more
    else:
        y = y.clone()
    return y.cos()
