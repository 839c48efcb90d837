"""The first operation of a graph of 120 is wrong in one element."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _clamp(x: Tensor, low: float) -> Tensor:
    result = x.clamp_min(low)
    result[3, 5] = low
    return result


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.clamp_min):
        node.target = _clamp
    graph.recompile()
    return graph


def chain(x: Tensor) -> Tensor:
    x = torch.clamp_min(x, -0.5)  # here
    for _ in range(60):
        x = torch.sin(x) * 1.01
    return x


def example_inputs() -> tuple[Tensor]:
    return (torch.arange(64.0).reshape(8, 8),)
