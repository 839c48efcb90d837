"""The norm of one layer of ten has another epsilon."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._dynamo import register_backend
from torch.fx import GraphModule
from torch.nn.functional import layer_norm


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_function", target=layer_norm):
        if node.args[-1] == 3e-5:
            node.args = (*node.args[:-1], 3e-3)
    graph.recompile()
    return graph


class Layer(nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16, eps=epsilon)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)  # here
        return x + self.down(nn.functional.gelu(self.up(normed)))


def build() -> nn.Module:
    return nn.Sequential(*(Layer(3e-5 if index == 6 else 1e-5) for index in range(10)))


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(2, 6, 16),)
