"""torch.compile around a module that FSDP2 shards."""

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
    fully_shard(block)
fully_shard(net)
compiled = torch.compile(net, backend="aot_eager")
for _ in range(3):
    compiled(torch.randn(16, 32)).square().mean().backward()
