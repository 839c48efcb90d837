"""torch.compile around DDP around a module of the program, with buckets small enough to split its
graph."""

import torch
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 512)
        self.second = torch.nn.Linear(512, 512)
        self.last = torch.nn.Linear(512, 512)

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()).relu())


torch.manual_seed(0)
model = DistributedDataParallel(Net(), bucket_cap_mb=1)
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    optimizer.zero_grad()
    loss = compiled(torch.randn(16, 64)).square().mean()
    loss.backward()
    optimizer.step()
