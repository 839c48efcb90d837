"""GD102 15:9-"""

import torch
from torch import nn


class MaskedNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(8, 8)

    def forward(self, x, padding):
        """Normalize what isn't padding."""
        y = self.scale(x)
        if padding.all():
            return x
        mean = (y * ~padding).sum() / (~padding).sum()
        return y - mean


def example_inputs():
    padding = torch.zeros(4, 8, dtype=torch.bool)
    return [(torch.randn(4, 8), padding), (torch.randn(4, 8), ~padding)]
