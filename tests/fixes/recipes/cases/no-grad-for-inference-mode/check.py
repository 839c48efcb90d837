"""GD118 8:8-24"""

import torch


def forward(x):
    y = x.sin()
    if y.is_inference():
        y = y.clone()
    return y.cos()
