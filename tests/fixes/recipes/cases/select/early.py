"""GD102 9:8-23"""

import torch


def forward(x):
    first = x.sin()
    # Sure enough.
    if first.max() > 0:
        return first  # early
    for _ in range(2):
        x = x + first.cos()
    return x.tanh()
