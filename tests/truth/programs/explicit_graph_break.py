"""``torch._dynamo.graph_break()``."""

import torch


def region(x):
    x = x.sin()
    torch._dynamo.graph_break()  # breaks here
    return x.cos()


def example_inputs():
    return [(torch.ones(4),)]
