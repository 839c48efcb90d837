"""Batch-hard triplet loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class TripletLoss(nn.Module):
    def __init__(self, dim=6, margin=0.3):
        super().__init__()
        self.embed = nn.Linear(dim, 4)
        self.margin = margin

    def forward(self, x, labels):
        z = F.normalize(self.embed(x), dim=-1)
        dist = torch.cdist(z, z)
        same = labels.unsqueeze(0) == labels.unsqueeze(1)
        losses = []
        for i in range(z.size(0)):
            pos = dist[i][same[i]]
            neg = dist[i][~same[i]]
            if len(neg) == 0:
                continue
            losses.append(F.relu(pos.max() - neg.min() + self.margin))
        if not losses:
            return z.sum() * 0
        return torch.stack(losses).mean()


def example_inputs():
    torch.manual_seed(47)
    x = torch.randn(6, 6)
    return [(x, torch.tensor([0, 0, 1, 1, 2, 2])), (x, torch.zeros(6, dtype=torch.long))]
