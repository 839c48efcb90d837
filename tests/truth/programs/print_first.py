"""A break before the first operation: the first graph is empty."""

import torch


def region(x):
    print("begin")  # breaks here
    x = x.sin()
    print("end")  # breaks here
    return x


def example_inputs():
    return [(torch.ones(4),)]
