"""GD102 7:5-"""

import torch


def forward(x, keep):
    if keep.all():
        y = x.sin()
    elif not keep.any():
        y = x
    else:
        y = x
        y = y.index_put((keep,), x[keep].sin())
    return y + 1


def example_inputs():
    return torch.randn(4, 8, requires_grad=True), torch.tensor([True, False, True, True])
