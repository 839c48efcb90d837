"""GD101 17:13-65"""

import warnings

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        result, condition, max_value = self._compiled_part(x)
        if condition:
            warnings.warn(f"large: {max_value:.1f}", stacklevel=2)
        return result

    def _compiled_part(self, x):
        h = self.linear(x)
        condition = h.max() > -100.0
        max_value = h.max().detach()
        if condition:
            h = h / 2
        return h.sin(), condition, max_value


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
