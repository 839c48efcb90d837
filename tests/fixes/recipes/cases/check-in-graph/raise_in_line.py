"""GD102 9:5-34"""

import torch


def forward(x):
    y = x.exp()
    is_bad = y.sum() > 1e6
    if is_bad: raise RuntimeError
    return y.cos()
