"""One bias of a model gets a wrong gradient; the loss and all else agree."""

from __future__ import annotations

import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule


def _as_it_is(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    return make_boxed_func(graph.forward)


def _mean(grad: Tensor, dims: list[int], keepdim: bool = False) -> Tensor:
    return grad.mean(dims, keepdim)


def _backward(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.sum.dim_IntList and node.meta["val"].shape[-1] == 12:
            node.target = _mean
    graph.recompile()
    return make_boxed_func(graph.forward)


register_backend(aot_autograd(fw_compiler=_as_it_is, bw_compiler=_backward), name="planted")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 12), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = self.second(x)  # here
        return self.third(torch.relu(x))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(5, 6),)
