"""A student with a teacher that is an exponential moving average of it."""

import copy

import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(x).tanh()


class Student(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.teacher = copy.deepcopy(backbone)
        self.decay = 0.9

    @torch.no_grad()
    def update(self):
        for slow, fast in zip(self.teacher.parameters(), self.backbone.parameters()):
            slow.mul_(self.decay).add_(fast, alpha=1 - self.decay)

    def forward(self, x):
        student = self.backbone(x)
        with torch.no_grad():
            target = self.teacher(x)
        gap = (student - target).pow(2).mean()
        if gap > 0:
            self.update()
        print(f"gap {gap.item():.4f}")
        return gap


student = Student(Backbone())
step = torch.compile(student, backend="eager")
step(torch.randn(2, 8))
step(torch.randn(2, 8))
