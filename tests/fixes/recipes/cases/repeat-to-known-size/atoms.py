"""GD104 7:12-56 equal: torch.repeat_interleave(total, sizes, dim=0) = x.shape[0]"""

import torch


def forward(x, total, sizes):
    return torch.repeat_interleave(total, sizes, dim=0) * x


def example_inputs():
    return torch.randn(4, 8), torch.randn(2, 8), torch.tensor([1, 3])
