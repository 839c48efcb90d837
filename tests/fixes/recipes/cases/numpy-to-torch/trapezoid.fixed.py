"""GD109 9:12-49"""

import numpy as np
import torch


def forward(x):
    values = x.sin().numpy()
    area = torch.trapezoid(torch.as_tensor(values), dx=0.5, dim=-1).numpy()
    return x.sum(-1) * torch.as_tensor(area / 2.0)


def example_inputs():
    return (torch.randn(4, 8),)
