"""GD103 8:5-78"""

import torch


def check(cond, message):
    # A bool is checked by torch._check_with.
    torch._check_tensor_all_with(ValueError, cond, lambda: f"bad: {message}")


def forward(x, sizes):
    check(sizes.prod(-1).sum() == x.shape[0], "sizes")
    return x.sin()


def example_inputs():
    return torch.randn(10, 4), torch.tensor([[2, 2], [2, 3]])
