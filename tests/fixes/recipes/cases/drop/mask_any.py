"""GD102 11:9-"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        scores = x.sin()
        done = x.sum(-1) > 0
        if done.any():
            # A finished row starts over.
            scores[done] = 0.0
            scores[done, 0] = 1.0
        return scores.cos()


def example_inputs():
    return (torch.randn(4, 8),)
