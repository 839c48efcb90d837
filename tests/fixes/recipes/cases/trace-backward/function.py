"""GD112 12:5-20"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def train_step(x, target):
    loss = (model(x) - target).square().mean()
    loss.backward()
    print("trained")
    return loss.item()


def build():
    return train_step


def example_inputs():
    return [(torch.randn(4, 8), torch.randn(4, 1)) for _ in range(3)]
