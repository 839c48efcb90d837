"""GD112 14:17-63"""

import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        loss = self.layer(x).pow(2).mean()
        grads = torch.autograd.grad(loss, [self.layer.weight])
        with torch.no_grad():
            self.layer.weight.sub_(0.1 * grads[0])
        return loss.detach()


def example_inputs():
    return (torch.randn(4, 8),)
