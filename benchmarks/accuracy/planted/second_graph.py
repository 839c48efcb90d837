"""An operation is wrong in the graph after a break."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import graph_break, register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.sigmoid):
        node.target = torch.tanh
    graph.recompile()
    return graph


def two_graphs(x: Tensor) -> Tensor:
    for _ in range(5):
        x = torch.sin(x) + x
    graph_break()
    x = torch.cos(x)
    x = torch.sigmoid(x)  # here
    return x * 2


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(7, 7),)
