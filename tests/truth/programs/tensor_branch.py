"""``if`` on a tensor."""

import torch


def build():
    def branch(x):
        y = x * 2
        if y.sum() > 0:  # breaks here
            return y.sin()
        return y.cos()

    return branch


def example_inputs():
    return [(torch.ones(4),), (-torch.ones(4),)]
