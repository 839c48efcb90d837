"""GD103 10:23-37"""

import math

import torch


def forward(x):
    y = x.sin()
    scale = math.sqrt(y.var().item() + 1e-6)
    return y / scale
