"""The root is a class of torch's; a module of the user's inside it breaks."""

import torch
from torch import nn


class Loud(nn.Module):
    def forward(self, x):
        x = x.sin()
        print("loud")  # breaks here
        return x.cos()


def build():
    return nn.Sequential(nn.Linear(4, 4), Loud(), nn.Linear(4, 4))


def example_inputs():
    return [(torch.ones(2, 4),)]
