"""GD205 14 change: module_number self.step 0 -> 1"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("step", torch.tensor(0), persistent=False)  # calls so far

    def forward(self, x):
        y = torch.relu(self.linear(x)) / (1.0 + self.step)
        self.step += 1
        return y


def example_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 8),) for _ in range(4)]
