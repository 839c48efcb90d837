"""A break in a ``try``: the whole frame is skipped."""

import torch


def build():
    def guarded(x):
        y = x.sin()
        try:
            y = y + 1
            print("trying")  # breaks here
            y = y * 2
        except ValueError:
            y = y - 1
        return y.cos()

    return guarded


def example_inputs():
    return [(torch.ones(4),)]
