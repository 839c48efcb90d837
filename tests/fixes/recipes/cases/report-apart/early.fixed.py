"""GD102 11:9-"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        keep = x > 0
        # Not all is lost.
        if not torch.compiler.is_compiling() and not keep.any():
            print("nothing to keep")
        # As if it were zero.
        return torch.where(~keep.any(), x * 0, (x * keep).sum(-1, keepdim=True) + x)


def example_inputs():
    return (torch.randn(4, 8, requires_grad=True),)
