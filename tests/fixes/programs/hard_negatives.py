"""SSD-style loss: all positives and the hardest negatives."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiBoxLoss(nn.Module):
    def __init__(self, neg_pos_ratio=3):
        super().__init__()
        self.ratio = neg_pos_ratio
        self.running_pos = 0.0

    def forward(self, cls_logits, box_pred, labels, box_target):
        positive = labels > 0
        num_pos = positive.sum()
        self.running_pos = 0.9 * self.running_pos + 0.1 * num_pos.item()
        if num_pos == 0:
            return {"cls": F.cross_entropy(cls_logits, labels), "box": box_pred.sum() * 0}
        ce = F.cross_entropy(cls_logits, labels, reduction="none")
        negatives = ce.detach().masked_fill(positive, -1.0)
        num_neg = min(self.ratio * int(num_pos), labels.numel() - int(num_pos))
        _, hardest = negatives.topk(num_neg)
        cls_loss = (ce[positive].sum() + ce[hardest].sum()) / num_pos
        box_loss = (
            F.smooth_l1_loss(box_pred[positive], box_target[positive], reduction="sum") / num_pos
        )
        return {"cls": cls_loss, "box": box_loss}


def example_inputs():
    torch.manual_seed(46)
    labels = torch.tensor([0, 0, 2, 0, 1, 0, 0, 0, 0, 0])
    rest = torch.randn(10, 4), torch.randn(10, 4)
    return [
        (torch.randn(10, 3), rest[0], labels, rest[1]),
        (torch.randn(10, 3), rest[0], labels * 0, rest[1]),
    ]
