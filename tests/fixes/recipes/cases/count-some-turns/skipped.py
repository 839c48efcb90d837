"""GD102 14:16-31"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        labels = (x.sum(1) > 0).long()
        losses = []
        for c in range(3):
            mask = (labels == c).float()
            # Classes that are there.
            if mask.sum() == 0:
                continue
            errors, order = torch.sort((mask - x[:, c]).abs(), descending=True)
            losses.append(torch.dot(errors, mask[order].cumsum(0)))
        return torch.stack(losses).mean() * x
