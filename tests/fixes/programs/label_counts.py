"""Class-balanced cross entropy: the weights come from the labels that occur in the batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class BalancedLoss(nn.Module):
    def __init__(self, beta=0.9, smoothing=0.1):
        super().__init__()
        self.beta = beta
        self.smoothing = smoothing
        self.frequencies = {}

    def forward(self, logits, labels):
        classes, counts = torch.unique(labels, return_counts=True)
        if len(classes) == 1:
            return F.cross_entropy(logits, labels)
        effective = (1 - self.beta ** counts.float()) / (1 - self.beta)
        weight = torch.zeros(logits.size(1))
        weight[classes] = effective.sum() / effective
        onehot = F.one_hot(labels, logits.size(1)).float()
        onehot = onehot * (1 - self.smoothing) + self.smoothing / logits.size(1)
        for c, n in zip(classes.tolist(), counts.tolist()):
            self.frequencies[c] = self.frequencies.get(c, 0) + n
        per_sample = -(onehot * logits.log_softmax(-1)).sum(-1)
        return (weight[labels] * per_sample).mean()


def example_inputs():
    torch.manual_seed(42)
    logits = torch.randn(8, 5)
    return [(logits, torch.tensor([0, 1, 1, 3, 3, 3, 4, 0])), (logits, torch.full((8,), 2))]
