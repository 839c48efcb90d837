"""GD103 15:16-34"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.counts = {"kept": 0}

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        sum_value, relu_value = self._compiled_part(x)
        kept = int(sum_value)
        self.counts["kept"] += kept
        share = kept / 32
        return {"y": relu_value, "share": share}

    def _compiled_part(self, x):
        y = self.linear(x)
        sum_value = (y > 0).sum().detach()
        relu_value = y.relu()
        return sum_value, relu_value


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
