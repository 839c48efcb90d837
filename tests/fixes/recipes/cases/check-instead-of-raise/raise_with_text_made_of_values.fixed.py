"""GD102 10:12-44"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        y = x.exp()
        torch._assert_async(~((y.max() > 1e6) | y.isnan().any()), "ValueError: y.max() > 1000000.0 or y.isnan().any()")
        return y.cos()


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
