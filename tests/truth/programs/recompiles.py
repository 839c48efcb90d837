"""A size and a number that vary: both become dynamic."""

import torch


def region(x, factor):
    return x.sin() * factor


def example_inputs():
    return [
        (torch.ones(4), 1.5),
        (torch.ones(5), 1.5),
        (torch.ones(6), 2.5),
        (torch.ones(7), 3.5),
        (torch.ones(1), 3),
    ]
