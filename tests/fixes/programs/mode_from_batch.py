"""A multi-task head: the batch says which task it is for."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiTask(nn.Module):
    def __init__(self, dim=8, n_classes=3):
        super().__init__()
        self.trunk = nn.Linear(dim, 16)
        self.cls_head = nn.Linear(16, n_classes)
        self.reg_head = nn.Linear(16, 1)
        self.seen = {"classify": 0, "regress": 0}

    def forward(self, batch):
        h = F.gelu(self.trunk(batch["x"]))
        if batch["task"] == 0:
            self.seen["classify"] += 1
            pred = self.cls_head(h)
            loss = F.cross_entropy(pred, batch["label"])
        else:
            self.seen["regress"] += 1
            pred = self.reg_head(h).squeeze(-1)
            loss = F.smooth_l1_loss(pred, batch["value"])
        if batch["weight"].item() != 1.0:
            loss = loss * batch["weight"]
        return pred, loss


def example_inputs():
    torch.manual_seed(32)
    batch = {"x": torch.randn(5, 8), "label": torch.randint(0, 3, (5,)), "value": torch.randn(5)}
    return [
        ({**batch, "task": torch.tensor(task), "weight": torch.tensor(0.5 + task / 2)},)
        for task in (0, 1)
    ]
