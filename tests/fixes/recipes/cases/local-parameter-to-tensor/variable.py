"""GD115 7:13-46"""

import torch


def forward(x):
    scale = torch.nn.Parameter(torch.ones(8))
    return x.sin() * scale
