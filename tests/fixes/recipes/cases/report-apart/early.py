"""GD102 11:9-"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        keep = x > 0
        # Not all is lost.
        if not keep.any():
            print("nothing to keep")
            # As if it were zero.
            return x * 0
        return (x * keep).sum(-1, keepdim=True) + x
