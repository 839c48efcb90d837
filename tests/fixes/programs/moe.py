"""A sparse Mixture-of-Experts block: top-2 routing, a loop over experts, and load statistics."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden)
        self.w2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.w2(F.gelu(self.w1(x)))


class MoE(nn.Module):
    def __init__(self, dim=16, hidden=32, num_experts=4, top_k=2):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, hidden) for _ in range(num_experts)])
        self.top_k = top_k
        self.load = {}

    def forward(self, x):
        b, t, d = x.shape
        x = x.view(-1, d)
        probs = F.softmax(self.gate(x), dim=-1)
        weight, route = torch.topk(probs, self.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, slot = torch.where(route == i)
            if rows.numel() == 0:
                continue
            out[rows] += weight[rows, slot, None] * expert(x[rows])
        for i in range(len(self.experts)):
            self.load[i] = (route == i).sum().item()
        return out.view(b, t, d)


class Block(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.moe = MoE(dim)
        self.shared = nn.ModuleList(nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        h = self.norm(x)
        h = x + self.moe(h)
        # Every token goes to one of the small shared experts as well.
        choice = h[..., 0].abs().mul(10).long() % len(self.shared)
        out = torch.zeros_like(h)
        for i, expert in enumerate(self.shared):
            idx = (choice == i).nonzero(as_tuple=True)
            out[idx] += expert(h[idx])
        return h + out


def build():
    return Block()


def example_inputs():
    return (torch.randn(2, 6, 16),)
