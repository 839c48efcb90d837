"""A segmentation loss with per-class metrics."""

from collections import defaultdict

import torch
from torch import nn


class Meter:
    def __init__(self):
        self.values = defaultdict(list)

    def add(self, name, value):
        self.values[name].append(value)


class DiceLoss(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes
        self.meter = Meter()

    def forward(self, logits, target):
        probabilities = logits.softmax(1)
        total = 0
        for index in range(self.classes):
            mask = (target == index).float()
            overlap = (probabilities[:, index] * mask).sum()
            union = probabilities[:, index].sum() + mask.sum()
            dice = 2 * overlap / (union + 1e-6)
            if mask.sum() > 0:
                total = total + (1 - dice)
            self.meter.add(f"dice_{index}", dice.item())
        return total / self.classes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 1)
        self.loss = DiceLoss(3)

    def forward(self, image, target):
        return self.loss(self.conv(image), target)


def setup():
    net = Net()
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


model, optimizer = setup()
model = torch.compile(model, backend="eager")
model(torch.randn(1, 1, 4, 4), torch.randint(0, 3, (1, 4, 4))).backward()
optimizer.step()
