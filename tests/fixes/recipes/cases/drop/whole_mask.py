"""GD102 8:12-53"""

import torch


class Net(torch.nn.Module):
    def forward(self, x, mask):
        if mask is not None and torch.all(mask == 1):
            mask = None
        return (x if mask is None else x * mask[..., None]).sin()


def build():
    return Net()


def example_inputs():
    return torch.randn(2, 4, 8), torch.ones(2, 4)
