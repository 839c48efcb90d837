"""GD118 8:22-38"""

import torch


def forward(x):
    y = x.sin()
    z = y.clone() if y.is_inference() else y
    return z.cos()
