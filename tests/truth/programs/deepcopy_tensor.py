"""``copy.deepcopy`` of a tensor: the innermost lines lie in the standard library and in torch."""

import copy

import torch


def region(x):
    y = x.sin()
    kept = copy.deepcopy(y)  # breaks here
    return kept + y


def example_inputs():
    return [(torch.ones(4),)]
