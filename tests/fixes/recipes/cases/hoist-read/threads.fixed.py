"""GD100 11:16-39"""

import torch

SCALE = 0.5

_NUM_THREADS = torch.get_num_threads()


# Scales by threads.
def forward(x):
    y = x.sin()
    return y * _NUM_THREADS * SCALE


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
