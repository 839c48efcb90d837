"""GD105 20:17-36"""

import logging
import time

import torch
from torch import nn

log = logging.getLogger(__name__)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.seconds = {}
        self.all = []

    def forward(self, x):
        if not torch.compiler.is_compiling():
            began = time.perf_counter()
        y = self.linear(x)
        if not torch.compiler.is_compiling():
            self.seconds["linear"] = time.perf_counter() - began
            began = time.perf_counter()
        y = y.cos()
        if not torch.compiler.is_compiling():
            took = time.perf_counter() - began
            self.all.append(took)
            if took > 60:
                log.warning("slow: %.1f s", took)
        return y


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
