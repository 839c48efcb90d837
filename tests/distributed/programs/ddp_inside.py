"""DDP around a compiled module."""

import torch
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
model = DistributedDataParallel(torch.compile(net, backend="aot_eager"))
for _ in range(3):
    model(torch.randn(16, 64)).square().mean().backward()
