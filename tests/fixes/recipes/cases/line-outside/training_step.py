"""GD112 13:9-24"""

import torch
from torch import nn


def make_step(model, optimizer):
    def training_step(x, target):
        """One update."""
        optimizer.zero_grad()
        # Forward and loss.
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()  # eagerly
        return loss.detach()

    return training_step


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    return make_step(model, torch.optim.SGD(model.parameters(), lr=0.1))


def example_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 8), torch.randn(4, 1)) for _ in range(3)]
