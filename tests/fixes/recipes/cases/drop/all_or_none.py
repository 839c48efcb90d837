"""GD102 11:9-"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        applies = x[:, 0] > 0
        # Most often all rows.
        if applies.all():
            y = x.sin()
        elif not applies.any():
            y = x
        else:
            y = torch.where(applies[:, None], x.sin(), x)
        return y + 1


def example_inputs():
    return [(torch.ones(4, 8),), (-torch.ones(4, 8),), (torch.linspace(-1, 1, 32).view(4, 8),)]
