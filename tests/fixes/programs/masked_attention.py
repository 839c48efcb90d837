"""Attention with an optional mask, as it is written before anyone thinks of a compiler."""

import math
import warnings

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask=None, bias=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        if mask is not None and mask.any():
            scores = scores.masked_fill(mask[:, None, None, :], -1e9)
        if bias is not None and bias.abs().sum() > 0:
            scores = scores + bias
        weights = scores.softmax(-1)
        if torch.isnan(weights).any():
            warnings.warn("attention weights are NaN; is a row fully masked?")
            weights = torch.nan_to_num(weights)
        y = (weights @ v).transpose(1, 2).reshape(b, t, d)
        assert torch.isfinite(y).all(), "attention returned infinity"
        return self.out(y)


class Block(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = Attention(dim)

    def forward(self, x, mask=None):
        return x + self.attention(self.norm(x), mask)


def build():
    return Block()


def example_inputs():
    x = torch.randn(2, 6, 16)
    mask = torch.zeros(2, 6, dtype=torch.bool)
    mask[:, -2:] = True
    return [((x,), {"mask": mask}), ((x,), {})]
