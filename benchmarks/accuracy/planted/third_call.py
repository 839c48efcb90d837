"""An operation is wrong for large values, which the third call is the first to have."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _saturating(x: Tensor) -> Tensor:
    return torch.exp(x.clamp_max(8))


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.exp):
        node.target = _saturating
    graph.recompile()
    return graph


def grow(x: Tensor) -> Tensor:
    shifted = x - 1
    large = torch.exp(shifted)  # here
    return large / (large + 1e4)


def example_inputs() -> list[tuple[Tensor]]:
    return [(torch.linspace(0, top, 16),) for top in (1, 4, 12, 2)]
