"""Lambdas, decorators, comprehensions, statements over several lines, names and text beyond
ASCII."""

import functools

import torch


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        print("→", function.__name__)  # breaks here
        return function(*args)

    return wrapper


@logged
def größe(x):  # noqa: PLC2401
    return x + 1


halve = lambda x: (x / 2, print("halbé"))[0]  # breaks here


def region(x):
    x = größe(x.sin())
    x = halve(x)
    parts = [(part.tan(), print("teil", part.shape))[0] for part in (x, x)]  # breaks here
    total = torch.add(
        parts[0].max().item(),  # breaks here
        parts[1],
    )
    return total * 2


def example_inputs():
    return [(torch.ones(4),)]
