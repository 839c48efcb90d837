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
        # Normalised first.
        y = F.layer_norm(x, (8,))
        count = self._forward_with(x)
        z = y * 0.5 + x  # mixed
        return z.tanh(), count

    def _forward_with(self, x):
        with self._guard:
            # Everybody's list.
            self.seen.append(tuple(x.shape))
            count = len(self.seen)
        return count


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
