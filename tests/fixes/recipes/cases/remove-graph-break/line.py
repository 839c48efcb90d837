"""GD107 11:5-32"""

import torch
import torch._dynamo


def forward(x):
    y = x.sin()

    # Two graphs.
    torch._dynamo.graph_break()  # here
    y = y * 2
    return y.cos()
