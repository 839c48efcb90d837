"""A PyG net with its own message passing, scatter and checks of degrees."""
import warnings

import torch
import torch.nn as nn
from torch_geometric.nn import GCNConv, MessagePassing
from torch_geometric.utils import degree


def scatter_mean(src, index, size):
    if index.numel() > 0 and index.max() >= size:
        raise IndexError("index out of range")
    out = torch.zeros(size, src.shape[1], dtype=src.dtype)
    out.index_add_(0, index, src)
    count = torch.bincount(index, minlength=size)
    count[count == 0] = 1
    return out / count[:, None]


class MeanConv(MessagePassing):
    def __init__(self, n_in, n_out):
        super().__init__(aggr="add")
        self.lin = nn.Linear(n_in, n_out)
        self.self_lin = nn.Linear(n_in, n_out)

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = degree(col, x.size(0), dtype=x.dtype)
        if (deg == 0).any():
            warnings.warn("graph has isolated nodes")
        norm = deg.clamp(min=1).pow(-0.5)
        norm = norm[row] * norm[col]
        out = self.propagate(edge_index, x=self.lin(x), norm=norm)
        return out + self.self_lin(x)

    def message(self, x_j, norm):
        return norm.view(-1, 1) * x_j


class Net(nn.Module):
    def __init__(self, n_in=8, hidden=16, classes=3):
        super().__init__()
        self.first = MeanConv(n_in, hidden)
        self.second = GCNConv(hidden, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, edge_index, batch):
        x = torch.relu(self.first(x, edge_index))
        x = torch.relu(self.second(x, edge_index))
        num_graphs = int(batch.max()) + 1
        return self.out(scatter_mean(x, batch, num_graphs))


def build():
    return Net()


def example_inputs():
    edge_index = torch.randint(0, 20, (2, 60))
    batch = torch.arange(20) // 5
    return torch.randn(20, 8), edge_index, batch
