"""GD103 16:16-41"""

import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 20)

    def forward(self, x):
        logits = self.head(x).relu()
        top = logits.topk(5)
        place = top.values.softmax(-1).argmax()
        return top.indices[place].item()


def example_inputs():
    return (torch.randn(8),)
