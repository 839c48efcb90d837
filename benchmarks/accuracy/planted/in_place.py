"""An operation in place does nothing."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_method", target="clamp_"):
        node.args = (node.args[0], -1e9, 1e9)
    graph.recompile()
    return graph


def clip(x: Tensor) -> Tensor:
    y = torch.sin(x) * 3
    y.clamp_(-1, 1)  # here
    return y + x


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(5, 9),)
