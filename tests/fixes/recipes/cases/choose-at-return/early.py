"""GD102 9:8-23"""

import torch


def forward(x):
    first = x.sin()
    # Sure enough.
    if first.max() > 5:
        return first  # early
    for _ in range(2):
        x = x + first.cos()
    if x.shape[0] > 100:
        return x
    return x.tanh()
