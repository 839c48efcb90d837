"""A break in the body of a higher-order operator."""

import torch
from torch.utils.checkpoint import checkpoint


def body(x):
    y = x.sin()
    print("body")  # breaks here
    return y.cos()


def region(x):
    x = x * 2
    x = checkpoint(body, x, use_reentrant=False)
    return x + 1


def example_inputs():
    return [(torch.ones(4, requires_grad=True),)]
