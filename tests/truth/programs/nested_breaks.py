"""A break two calls deep that torch continues at the outermost function only: the rest of the
others runs eagerly."""

import torch

torch._dynamo.config.nested_graph_breaks = True


class Tracked:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def inner(x):
    with Tracked():
        x = x * 3
        print("inside")  # breaks here
        x = x * 2
    return x - 1


def middle(x):
    return inner(x.cos()).exp()


def region(x):
    y = middle(x.relu())
    return y.sin()


def example_inputs():
    return [(torch.ones(4),)]
