"""GD115 9:23-74"""

import torch
from torch.nn import Module, Parameter


class Net(Module):
    def forward(self, x):
        y = x.sin() * Parameter(x.mean(dim=0) * 2.0, requires_grad=False)
        return y.cos()
