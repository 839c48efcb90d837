"""GD102 8:5-70"""

import torch


def forward(x):
    y = x.exp()
    assert not y.isnan().any() and 0 <= y.max() < 1e6, "out of range"
    return y.cos()
