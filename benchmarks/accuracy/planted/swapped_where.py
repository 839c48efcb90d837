"""The two sides of a selection are swapped."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.where):
        mask, first, second = node.args
        node.args = (mask, second, first)
    graph.recompile()
    return graph


def select(x: Tensor, y: Tensor) -> Tensor:
    high, low = torch.exp(-x * x), torch.log1p(y * y)
    chosen = torch.where(x > y, high, low)  # here
    return chosen.sum(dim=-1)


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(6, 7), torch.randn(6, 7)
