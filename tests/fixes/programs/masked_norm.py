"""Batch normalization over the unpadded positions only."""

import torch
from torch import nn


class MaskedBatchNorm(nn.Module):
    def __init__(self, channels=6, momentum=0.1, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.momentum = momentum
        self.eps = eps

    def normalize(self, x, mean, var):
        return (x - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias

    def forward(self, x, padding):
        if padding.all():
            return x
        valid = x[~padding]
        if self.training and valid.size(0) > 1:
            mean, var = valid.mean(0), valid.var(0, unbiased=False)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(var, self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        return self.normalize(x, mean, var).masked_fill(padding[..., None], 0)


def example_inputs():
    torch.manual_seed(30)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    x = torch.randn(2, 5, 6)
    return [(x, padding), (x, torch.ones_like(padding))]
