"""GD102 8:12-25"""

import torch


def forward(x):
    y = x.exp()
    assert y.max() < 1e6, f"too large in {y.shape}"
    return y.cos()
