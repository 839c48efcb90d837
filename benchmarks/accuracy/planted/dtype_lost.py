"""A conversion to float64 is left out."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_method", target="to"):
        node.args = (node.args[0], torch.float32)
    graph.recompile()
    return graph


def accumulate(x: Tensor) -> Tensor:
    wide = x.to(torch.float64)  # here
    return wide * 2


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(4, 4),)
