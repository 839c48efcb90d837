"""GD112 18:9-24"""

import torch
from torch import nn
from torch.nn import functional


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Linear(8, 4)

    def forward(self, x):
        logits = self.model(x)
        target = x.argmax(dim=1) % 4
        # The loss goes on.
        loss = functional.cross_entropy(logits, target)
        loss.backward()
        print("trained")
        return loss.detach(), (logits.argmax(dim=1) == target).float().mean()


def example_inputs():
    return (torch.randn(4, 8),)
