"""One operation in the middle of a graph is another."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.erf):
        node.target = torch.tanh
    graph.recompile()
    return graph


def mix(x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(8):
        x = torch.sin(x @ weight) + x
    x = torch.erf(x)  # here
    for _ in range(8):
        x = torch.cos(x @ weight) - x
    return x


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(8, 16), torch.randn(16, 16) / 4
