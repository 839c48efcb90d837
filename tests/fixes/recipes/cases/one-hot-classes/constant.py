"""GD104 11:16-"""

import torch
from torch.nn.functional import one_hot

NUM_EXPERTS = 4


def forward(x):
    chosen = x.softmax(-1).argmax(-1)
    return x * one_hot(
        chosen,  # the best
    )


def example_inputs():
    return (torch.eye(4, requires_grad=True),)
