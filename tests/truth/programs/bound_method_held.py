"""The break lies in a helper whose caller holds what cannot be rebuilt: the call is a second
site."""

import dataclasses

import torch


@dataclasses.dataclass
class Scale:
    factor: float

    def apply(self, x):
        y = x * self.factor
        print("scaled")  # breaks here
        return y + 1


def region(x):
    x = x.sin()
    x = Scale(2.0).apply(x)  # breaks here
    return x.cos()


def example_inputs():
    return [(torch.ones(4),)]
