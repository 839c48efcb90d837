"""Self-attention pooling over sequences of different lengths, one after the other."""

import torch
import torch.nn as nn


class RaggedPool(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, dim)

    def forward(self, packed, lengths):
        pooled = []
        start = 0
        for length in lengths.tolist():
            seq = packed[start : start + length]
            start += length
            if length == 0:
                pooled.append(torch.zeros(packed.size(-1)))
                continue
            weight = self.score(seq).softmax(0)
            pooled.append((weight * seq).sum(0))
        return self.out(torch.stack(pooled))


def example_inputs():
    torch.manual_seed(37)
    return [
        (torch.randn(9, 6), torch.tensor([4, 0, 5])),
        (torch.randn(9, 6), torch.tensor([2, 3, 4])),
    ]
