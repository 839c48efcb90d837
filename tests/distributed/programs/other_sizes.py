"""Ranks that see other sizes: rank 1 compiles again."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.last = torch.nn.Linear(128, 8)

    def forward(self, x):
        return self.last(self.first(x).relu())


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.compile(Net(), backend="aot_eager"))
for step in range(12):
    size = 16 + step % 4 * dist.get_rank()
    model(torch.randn(size, 64)).square().mean().backward()
dist.barrier()  # a rank that leaves while another still sends would end it
dist.destroy_process_group()
