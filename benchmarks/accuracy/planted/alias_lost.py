"""An output that is a view of an input is a copy."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _copied(x: Tensor, *shape: int) -> Tensor:
    return x.clone().view(*shape)


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_method", target="view"):
        node.op, node.target = "call_function", _copied
    graph.recompile()
    return graph


def flatten(x: Tensor) -> tuple[Tensor, Tensor]:
    flat = x.view(-1)  # here
    return flat, x * 2


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(3, 4),)
