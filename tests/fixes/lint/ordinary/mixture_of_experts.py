"""Top-k routing that visits the experts one after the other."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class MoE(nn.Module):
    def __init__(self, dim, experts, k):
        super().__init__()
        self.router = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([Expert(dim) for _ in range(experts)])
        self.k = k

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.router(flat), dim=-1), self.k)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == index)
            if rows.numel() == 0:
                continue
            out[rows] += weights[rows, slots, None] * expert(flat[rows])
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.moe = MoE(dim, 4, 2)

    def forward(self, x):
        return x + self.moe(self.norm(x))


layers = [Layer(8), Layer(8)]
compiled = [torch.compile(layer, backend="eager") for layer in layers]
x = torch.randn(2, 3, 8)
for layer in compiled:
    x = layer(x)
