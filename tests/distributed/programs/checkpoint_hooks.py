"""Activation checkpointing around a module with hooks, and hooks that break."""

import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)

    def forward(self, x):
        return self.linear(x).relu()


seen = []


def note(_module, _arguments, result):
    seen.append(result.sum().item())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()
        self.first.register_forward_hook(note)
        self.second.register_forward_hook(note)

    def forward(self, x):
        x = self.first(x)
        return checkpoint(self.second, x, use_reentrant=False)


torch.manual_seed(0)
net = Net()
compiled = torch.compile(net, backend="aot_eager")
for _ in range(3):
    compiled(torch.randn(16, 32)).square().mean().backward()
