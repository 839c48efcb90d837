"""A graph convolution and a readout for each graph of a batch."""

import torch
import torch.nn as nn


class GraphNet(nn.Module):
    def __init__(self, dim=5, hidden=8):
        super().__init__()
        self.lin = nn.Linear(dim, hidden)
        self.att = nn.Linear(hidden, 1)
        self.out = nn.Linear(2 * hidden, 1)

    def forward(self, x, edge_index, batch):
        src, dst = edge_index
        n = x.size(0)
        deg = torch.bincount(dst, minlength=n).clamp(min=1).float()
        h = self.lin(x)
        agg = torch.zeros_like(h).index_add_(0, dst, h[src]) / deg[:, None]
        h = torch.relu(h + agg)

        num_graphs = batch[-1].item() + 1
        sizes = torch.bincount(batch, minlength=num_graphs)
        mean = torch.zeros(num_graphs, h.size(1)).index_add_(0, batch, h) / sizes[:, None]
        context = torch.repeat_interleave(mean, sizes, dim=0)
        gate = torch.sigmoid(self.att(h * context))
        att = torch.zeros(num_graphs, h.size(1)).index_add_(0, batch, gate * h)
        return self.out(torch.cat([mean, att], dim=-1)).squeeze(-1)


def example_inputs():
    torch.manual_seed(17)
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [1, 2, 0, 4, 3, 6, 5]])
    batch = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    return (torch.randn(7, 5), edge_index, batch)
