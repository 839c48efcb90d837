"""A result is detached, so that nothing before it gets a gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _detached(x: Tensor) -> Tensor:
    return torch.tanh(x).detach()


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.tanh):
        node.target = _detached
    graph.recompile()
    return graph


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.first(x))  # here
        return self.second(hidden), hidden


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(3, 6),)
