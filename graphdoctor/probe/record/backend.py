"""Writes down the graphs that reach a backend, as ``graphdoctor_graph`` artifacts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from ...facts.recording import GraphInput, GraphNode
from ..torch_private import torch_api
from ..torch_private.replacing import Undo
from ..torch_private.torch_hooks import watch_graphs
from .describe import dtype_text, tensor_text
from .files import is_user_file

_CALLS = frozenset({"call_function", "call_method", "call_module"})
_STACK_LINE = re.compile(r'^\s*File "(.*?)", line (\d+), in (.*)$', re.MULTILINE)
_MAX_ARGUMENT = 500


@lru_cache(maxsize=4096)  # many nodes have one stack
def places_in(stack: str | None) -> tuple[tuple[str, int, str], ...]:
    """File, line and function of each line of a node's ``stack_trace``, outermost first."""
    return tuple((file, int(line), name) for file, line, name in _STACK_LINE.findall(stack or ""))


class GraphRecorder:
    """Writes down graphs (inputs, nodes, operation counts), numbered in the order in which they
    reach the backend.
    """

    def __init__(self, want_file: Callable[[str], None]) -> None:
        self._want_file = want_file
        self.count = 0
        """Graphs so far."""
        self.latest: tuple[int, int] | None = None
        """Index and tensor operations of the graph that a backend compiled last."""

    def install(self) -> Undo:
        """Write down graphs from now on, and have the files in their stacks wanted."""
        return watch_graphs(before=self._described, after=self._write)

    def _write(self, artifact: dict[str, Any]) -> None:
        torch_api.write_artifact("graphdoctor_graph", artifact)
        self.latest = artifact["index"], artifact["tensor_op_count"]

    def _described(self, gm: torch.fx.GraphModule) -> dict[str, Any]:
        # Torch's files too, and those of the bodies of higher-order operators.
        graphs = (
            module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule)
        )
        for node in (node for graph in graphs for node in graph.nodes):
            for file, _, _ in places_in(node.stack_trace):
                self._want_file(file)
        nodes = list(gm.graph.nodes)
        self.count += 1
        return {
            "index": self.count - 1,
            "op_count": sum(node.op in _CALLS for node in nodes),
            "tensor_op_count": tensor_op_count(gm),
            "inputs": [_describe_input(node) for node in nodes if node.op == "placeholder"],
            "nodes": list(map(_describe_node, nodes)),
        }


def tensor_op_count(gm: torch.fx.GraphModule) -> int:
    """Calls in a graph that compute a tensor.

    A higher-order operator (checkpointing, ``cond``) counts as the operations in its bodies. Items
    of a tuple of results, arithmetic on sizes and tensors that Dynamo makes from numbers don't
    count: none is a tensor operation in eager mode.
    """
    return sum(_tensor_ops_of(node, gm) for node in gm.graph.nodes if node.op in _CALLS)


def _tensor_ops_of(node: torch.fx.Node, gm: torch.fx.GraphModule) -> int:
    taken = (
        getattr(gm, str(each.target), None)
        for each in node.all_input_nodes
        if each.op == "get_attr"
    )
    if bodies := [body for body in taken if isinstance(body, torch.fx.GraphModule)]:
        return sum(map(tensor_op_count, bodies))
    base = (
        node.args[0] if node.args and getattr(node.target, "__name__", None) == "getitem" else None
    )
    if isinstance(base, torch.fx.Node) and isinstance(torch_api.node_value(base), (tuple, list)):
        return 0
    return _has_tensor(torch_api.node_value(node)) and not torch_api.is_number_made_tensor(node)


def _has_tensor(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_tensor(item) for item in value)
    return isinstance(value, torch.Tensor)


def _describe_input(node: torch.fx.Node) -> GraphInput:
    value = torch_api.node_value(node)
    source = torch_api.placeholder_source(node)
    if not isinstance(value, torch.Tensor):
        is_symbol = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
        return GraphInput(name=node.name, source=source, kind="symbol" if is_symbol else "other")
    # Dynamo keeps the class in the fake tensor; a buffer shows by its source alone.
    is_named = source is not None and ("._parameters[" in source or "._buffers[" in source)
    return GraphInput(
        name=node.name,
        source=source,
        kind="tensor",
        dtype=dtype_text(value.dtype),
        shape=tuple(int(text) if text.isdigit() else text for text in map(str, value.shape)),
        device=str(value.device),
        is_parameter=isinstance(value, torch.nn.Parameter) or is_named,
    )


def _describe_node(node: torch.fx.Node) -> GraphNode:
    places = (place for place in reversed(places_in(node.stack_trace)) if is_user_file(place[0]))
    file, line, _ = next(places, (None, None, None))
    return GraphNode(
        name=node.name,
        opcode=node.op,
        target=node._pretty_print_target(node.target),
        args=_cut(", ".join(map(str, node.args))),
        kwargs=_cut(", ".join(f"{key}={value}" for key, value in node.kwargs.items())),
        value=_value_text(torch_api.node_value(node)),
        inputs=tuple(taken.name for taken in node.all_input_nodes),
        file=file,
        line=line,
        module=torch_api.node_module(node),
    )


def _value_text(value: object) -> str | None:
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_value_text(item) or "?" for item in value) + ")"
    return str(value) if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else None


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_ARGUMENT else text[: _MAX_ARGUMENT - 1] + "…"
