"""An argument that the call writes to stays as it was."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_method", target="copy_"):
        node.target = "expand_as"
        node.args = (node.args[1], node.args[0])
    graph.recompile()
    return graph


def remember(x: Tensor, last: Tensor) -> Tensor:
    change = x - last
    last.copy_(x)  # here
    return change * 2


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(4), torch.zeros(4)
