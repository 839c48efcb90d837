"""Sparse mixture of experts: top-2 gating, capacity, dropped tokens, load balancing loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden), nn.Linear(hidden, dim), nn.Linear(dim, hidden)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TopKRouter(nn.Module):
    def __init__(self, dim, num_experts, top_k, jitter=0.0):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.top_k, self.jitter = top_k, jitter

    def forward(self, x):
        logits = self.gate(x)
        probs = F.softmax(logits, dim=-1, dtype=torch.float)
        weights, selected = torch.topk(probs, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return logits, probs, weights, selected


class SparseMoeBlock(nn.Module):
    def __init__(self, dim=12, hidden=16, num_experts=4, top_k=2, capacity_factor=1.0):
        super().__init__()
        self.num_experts, self.top_k, self.capacity_factor = num_experts, top_k, capacity_factor
        self.router = TopKRouter(dim, num_experts, top_k)
        self.experts = nn.ModuleList([Expert(dim, hidden) for _ in range(num_experts)])
        self.register_buffer("expert_load", torch.zeros(num_experts))

    def aux_loss(self, probs, selected):
        mask = F.one_hot(selected, self.num_experts).float()
        tokens_per_expert = mask.mean(dim=(0, 1))
        return self.num_experts * (tokens_per_expert * probs.mean(0)).sum()

    def forward(self, hidden_states):
        batch, seq, dim = hidden_states.shape
        x = hidden_states.view(-1, dim)
        logits, probs, weights, selected = self.router(x)
        capacity = math.ceil(self.capacity_factor * x.shape[0] * self.top_k / self.num_experts)
        final = torch.zeros_like(x)
        expert_mask = F.one_hot(selected, num_classes=self.num_experts).permute(2, 1, 0)
        dropped = 0
        for expert_idx in range(self.num_experts):
            idx, top_x = torch.where(expert_mask[expert_idx])
            if top_x.shape[0] == 0:
                continue
            if top_x.shape[0] > capacity:
                dropped += top_x.shape[0] - capacity
                idx, top_x = idx[:capacity], top_x[:capacity]
            current = x[None, top_x].reshape(-1, dim)
            out = self.experts[expert_idx](current) * weights[top_x, idx, None]
            final.index_add_(0, top_x, out.to(x.dtype))
            self.expert_load[expert_idx] += top_x.shape[0]
        return final.view(batch, seq, dim), self.aux_loss(probs, selected), dropped


class MoeLayer(nn.Module):
    def __init__(self, dim=12, z_loss=1e-3):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.moe = SparseMoeBlock(dim)
        self.z_loss = z_loss

    def forward(self, x):
        out, aux, dropped = self.moe(self.norm(x))
        x = x + out
        if torch.isinf(x).any():
            clamp_value = torch.finfo(x.dtype).max - 1000
            x = torch.clamp(x, min=-clamp_value, max=clamp_value)
        return x, aux, dropped


def build():
    torch.manual_seed(0)
    return MoeLayer()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    return [(torch.randn(2, 7, 12, generator=g),), (torch.randn(2, 7, 12, generator=g),)]
