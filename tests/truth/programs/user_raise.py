"""A ``raise`` that the second call reaches."""

import torch


def region(x, limit):
    y = x.sin()
    if limit < 0:
        raise ValueError("limit below zero")  # breaks here
    return y * limit


def example_inputs():
    return [(torch.ones(4), 1), (torch.ones(4), -1)]
