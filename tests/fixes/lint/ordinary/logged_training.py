"""A classifier that logs while it runs."""

import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)


class Classifier(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.ReLU())
        self.head = nn.Linear(16, classes)
        self.steps = 0

    def forward(self, x, target):
        self.steps += 1
        hidden = self.body(x)
        logits = self.head(hidden)
        loss = nn.functional.cross_entropy(logits, target)
        if self.steps % 2 == 0:
            logger.info("step %d: loss %.3f", self.steps, loss.item())
        if torch.isnan(loss):
            logger.warning("the loss is not a number")
        return loss


def build():
    return Classifier(8, 3)


def main():
    model = torch.compile(build(), backend="eager")
    for _ in range(3):
        loss = model(torch.randn(4, 8), torch.randint(0, 3, (4,)))
        loss.backward()


main()
