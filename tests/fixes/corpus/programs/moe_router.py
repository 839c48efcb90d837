"""Mixture of experts: top-k routing, each expert sees only its tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden)
        self.w2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class MoE(nn.Module):
    def __init__(self, dim=16, num_experts=4, top_k=2):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, 2 * dim) for _ in range(num_experts)])
        self.num_experts = num_experts
        self.top_k = top_k

    def forward(self, x):
        b, t, d = x.shape
        x = x.view(-1, d)
        probs = F.softmax(self.gate(x), dim=-1)
        weights, selected = torch.topk(probs, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)

        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token_idx, kth = torch.where(selected == i)
            if token_idx.numel() == 0:
                continue
            out[token_idx] += weights[token_idx, kth, None] * expert(x[token_idx])

        load = torch.bincount(selected.flatten(), minlength=self.num_experts).float()
        balance = self.num_experts * (load / load.sum() * probs.mean(0)).sum()
        return out.view(b, t, d), balance


def example_inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 6, 16),)


model = MoE()
