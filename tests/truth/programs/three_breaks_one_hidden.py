"""What a skipped frame calls is compiled by itself; a break in the frame's own rest is never
seen."""

import torch
from torch import nn


class Net(nn.Module):
    def first(self, x):
        x = x.sin()
        print("first")  # breaks here
        return x + 1

    def forward(self, x):
        x = self.first(x)
        for index in range(3):
            x = x.cos()
            if index == 1:
                print("second")  # breaks here
        x = x * 2
        print("third, and hidden")
        return x + 1


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 4),)]
