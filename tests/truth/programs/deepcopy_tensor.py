"""``copy.deepcopy`` of a tensor: the innermost lines lie in the standard library and in torch."""

import copy

import torch


def build():
    def keep(x):
        y = x.sin()
        kept = copy.deepcopy(y)  # breaks here
        return kept + y

    return keep


def example_inputs():
    return [(torch.ones(4),)]
