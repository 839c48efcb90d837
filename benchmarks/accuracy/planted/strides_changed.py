"""A transposed output is contiguous."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo import register_backend
from torch.fx import GraphModule


def _contiguous(x: Tensor, *dims: int) -> Tensor:
    return x.permute(*dims).contiguous()


@register_backend(name="planted")
def _planted(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    for node in graph.graph.find_nodes(op="call_method", target="permute"):
        node.op, node.target = "call_function", _contiguous
    graph.recompile()
    return graph


def channels_first(image: Tensor) -> Tensor:
    scaled = image / 255
    return scaled.permute(0, 3, 1, 2)  # here


def example_inputs() -> tuple[Tensor]:
    return (torch.rand(2, 4, 5, 3),)
