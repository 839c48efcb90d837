"""Switch-style layer: one expert per token, a capacity, and a count of dropped tokens."""

import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Net(nn.Module):
    def __init__(self, dim=8, n_experts=3, capacity=5):
        super().__init__()
        self.router = nn.Linear(dim, n_experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_experts))
        self.capacity = capacity
        self.dropped = 0

    def forward(self, tokens):
        scores = self.router(tokens).softmax(-1)
        gate, choice = scores.max(-1)
        output = tokens.clone()
        for e in range(len(self.experts)):
            mask = choice == e
            n = int(mask.sum())
            if n == 0:
                continue
            rows = mask.nonzero(as_tuple=True)[0]
            if n > self.capacity:
                self.dropped += n - self.capacity
                log.debug("expert %d is over capacity: %d tokens", e, n)
                rows = rows[: self.capacity]
            output[rows] = self.experts[e](tokens[rows]) * gate[rows].unsqueeze(-1)
        return output


def example_inputs():
    torch.manual_seed(2)
    return [(torch.randn(12, 8),), (torch.randn(12, 8) + 2,)]
