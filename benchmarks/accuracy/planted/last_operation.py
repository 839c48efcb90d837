"""The last operation of a graph works on another dim."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=torch.softmax):
        node.kwargs = {"dim": 0}
    graph.recompile()
    return graph


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(6)))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.layers(x), dim=1)  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(8, 8),)
