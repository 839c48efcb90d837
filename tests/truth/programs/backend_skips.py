"""A backend that asks torch to leave the frame to eager mode."""

import torch
from torch._dynamo.exc import SkipFrame


@torch._dynamo.register_backend
def declining(gm, example_inputs):
    raise SkipFrame("not worth it")


def region(x):
    return x.sin() + 1


def example_inputs():
    return [(torch.ones(4),)]
