"""GD107 8:5-31"""

import torch


def forward(x):
    y = x.sin()
    torch._dynamo.skip_frame()
    return y.cos()
