"""A module's running mean isn't updated."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._dynamo import register_backend
from torch.fx import GraphModule


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_method", target="lerp_"):
        node.target = "lerp"
    graph.recompile()
    return graph


class Centered(nn.Module):
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        centered = x - self.mean
        self.mean.lerp_(x.mean(dim=0), 0.1)  # here
        return centered


def example_inputs() -> list[tuple[Tensor]]:
    return [(torch.randn(8, 5) + 1,)]
