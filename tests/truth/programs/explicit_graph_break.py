"""``torch._dynamo.graph_break()``."""

import torch


def build():
    def split(x):
        x = x.sin()
        torch._dynamo.graph_break()  # breaks here
        return x.cos()

    return split


def example_inputs():
    return [(torch.ones(4),)]
