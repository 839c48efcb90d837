"""GD103 8:27-43"""

import torch


def pooled(x, lengths):
    out = []
    for i, n in enumerate(lengths.tolist()):
        out.append(x[i, :n].mean(0))
    return torch.stack(out)


def build():
    return pooled


def example_inputs():
    torch.manual_seed(0)
    return (torch.randn(3, 5, 2), torch.tensor([5, 2, 3]))
