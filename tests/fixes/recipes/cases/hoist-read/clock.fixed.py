"""GD105 17:19-38"""

import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        # When it came here.
        if not torch.compiler.is_compiling():
            started = time.perf_counter()  # in seconds

            seconds = round(started, 1)
            print(f"{seconds} s")
        return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
