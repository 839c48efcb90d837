"""Two breaks with different causes on one line, and two equal ones on another."""

import torch


def region(x):
    x = x.sin()
    print("one"), x.max().item()  # breaks here
    x = x.cos()
    print("two"), print("three")  # breaks here
    return x + 1


def example_inputs():
    return [(torch.ones(4),)]
