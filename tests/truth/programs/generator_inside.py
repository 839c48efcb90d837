"""A generator that a compiled function uses up is traced with it."""

import torch


def build():
    def rows(x):
        for row in x:
            yield row.sin() + 1

    return lambda x: list(rows(x))


def example_inputs():
    return [(torch.ones(3, 4),)]
