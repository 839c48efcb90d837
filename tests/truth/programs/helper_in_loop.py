"""A break in a method that is called in a loop: the caller is skipped, the method goes on and
recompiles."""

import torch


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def apply(self, x):
        y = x * self.factor
        print("scaled")  # breaks here
        return y + 1


def region(x):
    x = x.sin()
    for factor in (2.0, 3.0):
        x = Scale(factor).apply(x)
    return x.cos()


def example_inputs():
    return [(torch.ones(4),)]
