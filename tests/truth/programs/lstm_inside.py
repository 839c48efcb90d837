"""A module of torch's breaks in its own ``forward``; the user's line is the call."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x):
        x = x.sin()
        y, _ = self.rnn(x)  # breaks here
        return y.cos()


def build():
    return Net()


def example_inputs():
    return [(torch.ones(2, 3, 4),)]
