"""A training step: the innermost lines lie in torch."""

import torch
from torch import nn


def build():
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        loss = model(x).square().sum()
        loss.backward()  # breaks here
        optimizer.step()  # breaks here
        optimizer.zero_grad()  # breaks here
        return loss

    return step


def example_inputs():
    return [(torch.ones(2, 4),), (torch.ones(2, 4),)]
