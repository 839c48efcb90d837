"""torch.compile around DDP around a container of torch's own."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
c = torch.compile(DistributedDataParallel(net), backend="aot_eager")
for _ in range(12):
    c(torch.randn(16, 64)).square().mean().backward()
dist.barrier()  # a rank that leaves while another still sends would end it
dist.destroy_process_group()
