"""The derivative of one operation is scaled in the backward graph."""

from __future__ import annotations

import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule


def _as_it_is(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    return make_boxed_func(graph.forward)


def _scaled(grad: Tensor, output: Tensor) -> Tensor:
    return grad * (1 - output * output) * 0.9


def _backward(graph: GraphModule, inputs: list[Tensor]) -> GraphModule:
    target = torch.ops.aten.tanh_backward.default
    for node in graph.graph.find_nodes(op="call_function", target=target):
        node.target = _scaled
    graph.recompile()
    return make_boxed_func(graph.forward)


register_backend(aot_autograd(fw_compiler=_as_it_is, bw_compiler=_backward), name="planted")


def forward(x: Tensor, weight: Tensor) -> Tensor:
    for _ in range(4):
        x = torch.sin(x @ weight)
    x = torch.tanh(x)  # here
    for _ in range(4):
        x = torch.cos(x @ weight)
    return x


def example_inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
