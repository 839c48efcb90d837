"""GD101 9:19-29"""

import torch


def forward(x):
    y = x.sin()
    # Two of them.
    y = y * 2.0;  print("a"); print("b", y.shape); y = y.cos()  # both
    return y
