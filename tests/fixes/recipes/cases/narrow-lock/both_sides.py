"""GD110 18:9-"""

import threading

import torch
import torch.nn.functional as F
from torch import nn


class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self._guard = threading.RLock()
        self.seen = []

    def forward(self, x):
        x = x.sin()
        with self._guard:
            # Normalised first.
            y = F.layer_norm(x, (8,))
            # Everybody's list.
            self.seen.append(tuple(x.shape))
            count = len(self.seen)
            z = y * 0.5 + x  # mixed
            return z.tanh(), count


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
