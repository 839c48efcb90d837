"""A break four calls deep: one site, logged by every frame that tries to inline it."""

import torch


def innermost(x):
    x = x + 1
    print("deep")  # breaks here
    return x * 2


def third(x):
    return innermost(x.cos()) + 3


def second(x):
    return third(x.sin()) + 2


def first(x):
    return second(x.tan()) + 1


def build():
    return first


def example_inputs():
    return [(torch.ones(4),)]
