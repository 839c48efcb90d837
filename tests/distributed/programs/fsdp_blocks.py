"""FSDP2 around blocks that are compiled one by one."""

import torch
from torch.distributed.fsdp import fully_shard


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


torch.manual_seed(0)
net = Net()
for block in net.blocks:
    block.compile(backend="aot_eager")
    fully_shard(block)
fully_shard(net)
for _ in range(3):
    net(torch.randn(16, 32)).square().mean().backward()
