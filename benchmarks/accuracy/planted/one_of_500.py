"""One of 500 operations has another constant."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.nodes:
        if node.args[1:] == (0.3125,):
            node.args = (node.args[0], 0.3)
    graph.recompile()
    return graph


def long_chain(x: Tensor) -> Tensor:
    for _ in range(150):
        x = torch.sin(x) + 0.25
    x = x * 0.3125  # here
    for _ in range(100):
        x = torch.neg(x) + 0.75
    return x


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(16, 16),)
