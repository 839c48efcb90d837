"""Two outputs that share memory don't."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _copied(x: Tensor, *dims: int) -> Tensor:
    return x.clone().narrow(*dims)


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_method", target="narrow"):
        node.op, node.target = "call_function", _copied
    graph.recompile()
    return graph


def cache(x: Tensor) -> tuple[Tensor, Tensor]:
    keys = torch.sin(x)
    return keys, keys.narrow(0, 1, 2)  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 6),)
