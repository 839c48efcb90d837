"""Graph isomorphism layers from torch_geometric and a readout by hand."""

import torch
import torch.nn as nn
from torch_geometric.nn import GINConv


class MoleculeNet(nn.Module):
    def __init__(self, dim=5, hidden=8):
        super().__init__()
        self.conv1 = GINConv(nn.Sequential(nn.Linear(dim, hidden), nn.ReLU()))
        self.conv2 = GINConv(nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU()))
        self.head = nn.Linear(hidden, 1)

    def forward(self, x, edge_index, batch):
        if edge_index.max() >= x.size(0):
            raise ValueError(
                f"edge to node {edge_index.max().item()}, but there are {x.size(0)} nodes"
            )
        h = self.conv2(self.conv1(x, edge_index), edge_index)
        n_graphs = int(batch.max()) + 1
        pooled = h.new_zeros(n_graphs, h.size(1)).index_add(0, batch, h)
        count = torch.bincount(batch)
        return self.head(pooled / count[:, None]).squeeze(-1)


model = MoleculeNet()


def example_inputs():
    torch.manual_seed(52)
    edge_index = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    return (torch.randn(5, 5), edge_index, torch.tensor([0, 0, 0, 1, 1]))
