"""Lambdas, decorators, comprehensions, statements over several lines, names and text beyond ASCII."""

import functools

import torch


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        print("→", function.__name__)  # breaks here
        return function(*args)

    return wrapper


@logged
def größe(x):
    return x + 1


halve = lambda x: (x / 2, print("halbé"))[0]  # noqa: E731  # breaks here


def build():
    def region(x):
        x = größe(x.sin())
        x = halve(x)
        parts = [
            part
            + print(  # breaks here
                "part"
            )
            if part is None
            else part.tan()
            for part in (x, x)
        ]
        torch._dynamo.graph_break(
            "several lines"
        )
        return parts[0] + parts[1]

    return region


def example_inputs():
    return [(torch.ones(4),)]
