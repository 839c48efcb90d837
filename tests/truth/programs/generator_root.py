"""A generator function is not compiled at all."""

import torch


def build():
    def rows(x):
        for row in x:
            yield row.sin() + 1

    return lambda x: list(rows(x))


def example_inputs():
    return [(torch.ones(3, 4),)]
