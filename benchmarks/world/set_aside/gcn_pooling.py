"""Graph classification: GCN convolutions with self loops and edge dropout, readout by graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def maybe_num_nodes(edge_index, num_nodes=None):
    if num_nodes is not None:
        return num_nodes
    return int(edge_index.max()) + 1 if edge_index.numel() > 0 else 0


def scatter_add(src, index, dim_size):
    return torch.zeros(dim_size, *src.shape[1:], dtype=src.dtype).index_add_(0, index, src)


def contains_self_loops(edge_index):
    return bool((edge_index[0] == edge_index[1]).any())


def remove_self_loops(edge_index):
    mask = edge_index[0] != edge_index[1]
    return edge_index[:, mask]


def add_self_loops(edge_index, num_nodes):
    loop_index = torch.arange(0, num_nodes, dtype=torch.long, device=edge_index.device)
    return torch.cat([edge_index, loop_index.unsqueeze(0).repeat(2, 1)], dim=1)


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def gcn_norm(self, edge_index, num_nodes):
        row, col = edge_index
        deg = scatter_add(torch.ones(row.shape[0]), col, num_nodes)
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
        return deg_inv_sqrt[row] * deg_inv_sqrt[col]

    def forward(self, x, edge_index):
        if contains_self_loops(edge_index):
            edge_index = remove_self_loops(edge_index)
        edge_index = add_self_loops(edge_index, x.size(0))
        norm = self.gcn_norm(edge_index, x.size(0))
        x = self.lin(x)
        return scatter_add(norm.view(-1, 1) * x[edge_index[0]], edge_index[1], x.size(0)) + self.bias


def global_mean_pool(x, batch, size=None):
    size = int(batch.max().item() + 1) if size is None else size
    counts = scatter_add(torch.ones(x.shape[0], 1), batch, size)
    return scatter_add(x, batch, size) / counts.clamp(min=1)


class GCN(nn.Module):
    def __init__(self, num_features=6, hidden=12, num_classes=2):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(num_features, hidden), GCNConv(hidden, hidden)
        self.lin = nn.Linear(2 * hidden, num_classes)

    def forward(self, x, edge_index, batch, y):
        num_nodes = maybe_num_nodes(edge_index, x.size(0))
        assert num_nodes == x.shape[0]
        x = F.relu(self.conv1(x, edge_index))
        x = F.relu(self.conv2(x, edge_index))
        mean = global_mean_pool(x, batch)
        num_graphs = mean.shape[0]
        biggest = torch.full((num_graphs, x.shape[1]), -1e9)
        biggest = biggest.scatter_reduce(0, batch[:, None].expand_as(x), x, reduce="amax")
        out = self.lin(torch.cat([mean, biggest], dim=1))
        loss = F.cross_entropy(out, y)
        correct = int((out.argmax(dim=1) == y).sum())
        return loss, correct


def build():
    torch.manual_seed(0)
    return GCN()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    calls = []
    for n_graphs in (3, 4):
        n = 5 * n_graphs
        batch = torch.arange(n_graphs).repeat_interleave(5)
        edge = torch.randint(0, 5, (2, 4 * n_graphs), generator=g) + 5 * torch.arange(n_graphs).repeat_interleave(4)
        edge[:, 0] = 0
        calls.append((torch.randn(n, 6, generator=g), edge, batch, torch.randint(0, 2, (n_graphs,), generator=g)))
    return calls
