"""Indices are in descending order; no floating-point number is near them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.argsort):
        node.kwargs = {**node.kwargs, "descending": True}
    graph.recompile()
    return graph


def rank(scores: Tensor) -> Tensor:
    order = torch.argsort(scores * 3, dim=1)  # here
    return order + torch.arange(scores.shape[1])


def example_inputs() -> tuple[Tensor]:
    return (torch.arange(40).reshape(4, 10) * 7 % 41,)
