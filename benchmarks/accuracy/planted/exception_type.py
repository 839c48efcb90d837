"""An exception has another type."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _look_up(tokens: Tensor, weight: Tensor, *rest: object) -> Tensor:
    if int(tokens.max()) >= len(weight):
        raise RuntimeError("index out of range in self")
    return weight[tokens]


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.nodes:
        if node.target is torch.nn.functional.embedding:
            node.target, node.kwargs = _look_up, {}
    graph.recompile()
    return graph


def look_up(tokens: Tensor, weight: Tensor) -> Tensor:
    scaled = weight * 2
    return torch.nn.functional.embedding(tokens, scaled)  # here


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.tensor([1, 7]), torch.randn(4, 3)
