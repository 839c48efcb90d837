"""DDP with the backward pass compiled, too."""

import torch
from torch.nn.parallel import DistributedDataParallel

torch._dynamo.config.compiled_autograd = True
torch._dynamo.config.optimize_ddp = "python_reducer"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.last = torch.nn.Linear(128, 8)

    def forward(self, x):
        return self.last(self.first(x).relu())


torch.manual_seed(0)
model = DistributedDataParallel(Net())


@torch.compile(backend="aot_eager")
def step(x):
    loss = model(x).square().mean()
    loss.backward()
    return loss


for _ in range(3):
    step(torch.randn(16, 64))
