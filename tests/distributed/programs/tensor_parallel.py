"""A module whose weights are DTensors."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.down(self.up(x).relu())


torch.manual_seed(0)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
net = parallelize_module(Net(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
compiled = torch.compile(net, backend="aot_eager")
for _ in range(3):
    compiled(torch.randn(16, 32)).square().mean().backward()
