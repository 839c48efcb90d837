"""A layer that looks after its own numbers."""

import warnings

import torch
import torch.nn as nn


class GuardedAttention(nn.Module):
    def __init__(self, dim=8, limit=1e4):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.limit = limit
        self.nan_count = 0

    def forward(self, x):
        if torch.isnan(x).any():
            warnings.warn("NaN in the input of attention, replaced by 0")
            self.nan_count += 1
            x = torch.nan_to_num(x)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if scores.abs().max() > self.limit:
            warnings.warn(f"attention scores up to {scores.abs().max().item():.0f}")
            scores = scores.clamp(-self.limit, self.limit)
        out = self.proj(scores.softmax(-1) @ v)
        if not torch.isfinite(out).all():
            raise RuntimeError(f"{(~torch.isfinite(out)).sum().item()} values aren't finite")
        return out


model = GuardedAttention()


def example_inputs():
    torch.manual_seed(23)
    return (torch.randn(2, 5, 8),)
