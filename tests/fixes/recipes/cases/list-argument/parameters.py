"""GD121 8:13-86"""

import torch
from torch import nn


def norm_of(parameters):
    norms = [parameter.norm() for parameter in parameters if parameter.requires_grad]
    return torch.stack(norms).norm()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x):
        y = self.first(x)
        for _ in range(2):
            torch._dynamo.graph_break()
        return y / norm_of(self.parameters())
