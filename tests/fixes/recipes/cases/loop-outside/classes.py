"""GD102 13:16-33"""

import torch
from torch import nn


class DiceLoss(nn.Module):
    def forward(self, logits, target):
        shares = logits.softmax(1)
        losses = []
        for number in range(4):
            wanted = (target == number).float()
            if wanted.sum() == 0:
                continue
            given = shares[:, number]
            both = (given * wanted).sum()
            losses.append(1 - 2 * both / (given.sum() + wanted.sum()))
        return torch.stack(losses).mean()


def example_inputs():
    return (torch.randn(6, 4), torch.tensor([0, 1, 1, 3, 3, 0]))
