"""GD106 17:20-33"""

import torch
from torch import nn


class Net(nn.Module):
    # For a reason.
    @torch.no_grad()
    # Not traced.
    @torch._dynamo.disable(recursive=False)  # see the issue
    def scale(self, x):
        return x.mean() * 2

    def forward(self, x):
        y = x.sin()
        return y * self.scale(y) + 1
