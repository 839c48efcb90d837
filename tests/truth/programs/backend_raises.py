"""A backend that raises."""

import torch


@torch._dynamo.register_backend
def raising(gm, example_inputs):
    raise RuntimeError("no such instruction")


def region(x):
    return x.sin() + 1


def example_inputs():
    return [(torch.ones(4),)]
