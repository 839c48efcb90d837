"""The end of a detector: a threshold, how many are left, nothing found, a limit, and a line about it."""

import logging

import torch
from torch import nn

logger = logging.getLogger("boxes")


class Head(nn.Module):
    def __init__(self, dim=8, threshold=0.45, most=5):
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.box = nn.Linear(dim, 4)
        self.threshold = threshold
        self.most = most
        self.kept = []

    def forward(self, x):
        scores = self.score(x).squeeze(-1).sigmoid()
        boxes = self.box(x)
        keep = scores > self.threshold
        count = int(keep.sum())
        self.kept.append(count)
        if keep.sum() == 0:
            logger.warning("nothing over %.2f; best is %.3f", self.threshold, scores.max().item())
        logger.info(f"kept {count} of {len(scores)} boxes")
        weights = torch.where(keep, scores, torch.zeros_like(scores))
        order = weights.argsort(descending=True)[: self.most]
        best = boxes[order] * weights[order][:, None]
        if best.abs().max() > 100:
            print("boxes far outside:", best.abs().max().item())
        area = (best[:, 2:] - best[:, :2]).clamp(min=0).prod(-1)
        return best, area


def build():
    return Head()


def example_inputs():
    return (torch.randn(12, 8),)
