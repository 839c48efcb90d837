"""GD103 8:17-33 equal: int(index[-1].item()) + 1 = weight.shape[0]"""

import torch


def forward(x, weight):
    index = torch.arange(x.shape[0]) // 2
    count = int(index[-1].item()) + 1
    return torch.zeros(count, x.shape[1]).index_add(0, index, x) * weight[:, None]


def example_inputs():
    return torch.randn(4, 8), torch.randn(2)
