"""A segmentation head that returns its loss and an intersection over union for each class."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class SegHead(nn.Module):
    def __init__(self, channels=4, classes=3, ignore=255):
        super().__init__()
        self.conv = nn.Conv2d(channels, classes, 1)
        self.classes = classes
        self.ignore = ignore

    @torch.no_grad()
    def iou(self, pred, target):
        result = []
        for c in range(self.classes):
            p, t = pred == c, target == c
            union = (p | t).sum().item()
            if union == 0:
                result.append(float("nan"))
            else:
                result.append((p & t).sum().item() / union)
        return result

    def forward(self, features, target):
        logits = self.conv(features)
        if (target == self.ignore).all():
            return logits.sum() * 0, []
        loss = F.cross_entropy(logits, target, ignore_index=self.ignore)
        return loss, self.iou(logits.argmax(1), target)


def example_inputs():
    torch.manual_seed(48)
    target = torch.randint(0, 3, (2, 4, 4))
    features = torch.randn(2, 4, 4, 4)
    return [(features, target), (features, torch.full_like(target, 255))]
