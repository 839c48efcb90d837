"""A custom autograd function with a hook."""

import torch
from torch import nn


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= ctx.limit), None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.grads = []

    def remember(self, grad):
        self.grads.append(grad.norm())

    def forward(self, x):
        h = self.fc(x)
        limit = h.detach().abs().max().item()
        out = Clamp.apply(h, limit)
        out.register_hook(self.remember)
        return out.sum()


model = Net().train()
compiled = torch.compile(model, backend="eager")
compiled(torch.randn(2, 8)).backward()
