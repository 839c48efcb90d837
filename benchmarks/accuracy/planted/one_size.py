"""An operation is wrong for one batch size only, that of the second call."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _cut(x: Tensor, dim: int) -> Tensor:
    result = torch.cumsum(x, dim)
    return result - 0.5 if x.shape[0] == 5 else result


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.cumsum):
        node.target, node.kwargs = _cut, {}
        node.args = (node.args[0], 1)
    graph.recompile()
    return graph


def totals(x: Tensor) -> Tensor:
    squares = x * x
    running = torch.cumsum(squares, dim=1)  # here
    return torch.sqrt(running + 1)


def example_inputs() -> list[tuple[Tensor]]:
    return [(torch.randn(size, 6),) for size in (4, 5, 7)]
