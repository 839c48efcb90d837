"""A break before the first operation: the first graph is empty."""

import torch


def build():
    def region(x):
        print("begin")  # breaks here
        x = x.sin()
        print("end")  # breaks here
        return x

    return region


def example_inputs():
    return [(torch.ones(4),)]
