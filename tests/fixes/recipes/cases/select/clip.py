"""GD102 10:8-24"""

import torch


def forward(grads, max_norm):
    total = torch.sqrt(sum(grad.pow(2).sum() for grad in grads))
    # Clip as a whole,
    # not each by itself.
    if total > max_norm:
        for grad in grads:
            grad.mul_(max_norm / (total + 1e-6))  # in place
    return total


def example_inputs():
    return [torch.randn(4), torch.randn(3, 2)], 0.5
