"""A graph layer with self loops, dropped edges and normalized weights."""

import random

import torch
from torch import nn


class EdgeConv(nn.Module):
    def __init__(self, dim=6, p=0.3):
        super().__init__()
        self.lin = nn.Linear(2 * dim, dim)
        self.p = p

    def forward(self, x, edge_index):
        num_nodes = int(edge_index.max()) + 1
        assert num_nodes <= x.size(0), f"edges name node {num_nodes - 1}, there are {x.size(0)}"
        if self.training and random.random() < 0.8:
            keep = torch.rand(edge_index.size(1)) > self.p
            edge_index = edge_index[:, keep]
        if edge_index.numel() == 0:
            return x
        loops = torch.arange(x.size(0)).repeat(2, 1)
        row, col = torch.cat([edge_index, loops], dim=1)
        message = torch.relu(self.lin(torch.cat([x[row], x[col] - x[row]], dim=-1)))
        return torch.full_like(x, -1e9).scatter_reduce(
            0, col[:, None].expand_as(message), message, "amax"
        )


def example_inputs():
    torch.manual_seed(18)
    edges = torch.tensor([[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 4]])
    return [(torch.randn(5, 6), edges), (torch.randn(5, 6), edges.flip(0))]
