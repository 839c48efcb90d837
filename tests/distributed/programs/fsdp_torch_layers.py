"""Layers of torch's own class that FSDP shards: what is compiled around them, and each before it is
sharded."""

import torch
from torch._dynamo.utils import counters
from torch.distributed.fsdp import fully_shard


class Net(torch.nn.Module):
    def __init__(self, *, compiles_layers: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [
            torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            for _ in range(2)
        ]
        compiled = (
            torch.compile(layer, backend="eager") if compiles_layers else layer for layer in layers
        )
        self.layers = torch.nn.ModuleList(map(fully_shard, compiled))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def result(net: torch.nn.Module) -> tuple[torch.Tensor, int]:
    counters.clear()
    y = net(torch.ones(4, 3, 8))
    y.sum().backward()
    return y, counters["stats"]["unique_graphs"]


whole, none = result(torch.compile(fully_shard(Net(compiles_layers=False)), backend="eager"))
layers, some = result(fully_shard(Net(compiles_layers=True)))
torch.testing.assert_close(layers, whole)
assert (none, some > 0) == (0, True), (none, some)
