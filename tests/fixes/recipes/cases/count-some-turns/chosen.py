"""GD102 13:16-27"""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        scores = []
        for row in x.split(1):
            total = row.abs().sum()
            # Rows that are large enough.
            if total > 0.5:
                scores.append(row.sum() / (total - 0.4).sqrt())
        return x + sum(scores) / max(len(scores), 1)
