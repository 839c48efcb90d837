"""Two breaks with different causes on one line, and two equal ones on another."""

import torch


def build():
    def crowded(x):
        x = x.sin()
        print("one"), x.max().item()  # breaks here
        x = x.cos()
        print("two"), print("three")  # breaks here
        return x + 1

    return crowded


def example_inputs():
    return [(torch.ones(4),)]
