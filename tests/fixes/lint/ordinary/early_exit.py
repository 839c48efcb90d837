"""A stack of blocks that stops when it is confident."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, 1)

    def forward(self, x):
        x = torch.relu(self.proj(x))
        return x, torch.sigmoid(self.gate(x)).mean()


class EarlyExit(nn.Module):
    def __init__(self, dim, depth, threshold=0.99):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.threshold = threshold

    def forward(self, x):
        used = 0
        for block in self.blocks:
            x, confidence = block(x)
            used += 1
            if confidence > self.threshold:
                break
        print("used", used, "blocks")
        return x


def make_model(dim: int, depth: int) -> nn.Module:
    model = EarlyExit(dim, depth)
    model.eval()
    return model


model = make_model(8, 3)
model = torch.compile(model, backend="eager")
with torch.no_grad():
    model(torch.randn(2, 8))
