"""A model that checks what it is given and what it computes."""

import warnings

import torch
from torch import nn


def check_finite(name, tensor):
    if not torch.isfinite(tensor).all():
        warnings.warn(f"{name} is not finite", stacklevel=2)
    return tensor


class Normalizer(nn.Module):
    def forward(self, x):
        check_finite("input", x)
        scale = x.abs().max()
        if scale == 0:
            return x
        return x / scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.normalize = Normalizer()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.GELU())

    def forward(self, x, mask=None):
        assert x.dim() == 2, f"expected two dimensions, got {x.dim()}"
        x = self.normalize(x)
        if mask is not None and mask.any():
            x = x.masked_fill(mask, 0.0)
        out = self.layers(x)
        check_finite("output", out)
        return out


Net.forward = torch.compile(Net.forward, backend="eager")
Net()(torch.randn(2, 8), torch.zeros(2, 8, dtype=torch.bool))
