"""A constant of the graph is another."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.nodes:
        if node.args[1:] == (0.044715,):
            node.args = (node.args[0], 0.04475)
    graph.recompile()
    return graph


def gelu_by_hand(x: Tensor) -> Tensor:
    cube = x * x * x
    bent = cube * 0.044715  # here
    inner = torch.tanh(0.7978845608 * (x + bent))
    return 0.5 * x * (1 + inner)


def example_inputs() -> tuple[Tensor]:
    return (torch.linspace(-3, 3, 64),)
