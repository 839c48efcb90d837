"""The instrumented backend: passes each graph on to a registered backend, and writes down what went in.

A ``graphdoctor_graph`` artifact for each graph: index, operation counts, inputs, nodes, the backend's time or error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal

import torch

from ...facts.recording import GraphInput, GraphNode
from ..torch_private import torch_api
from ..torch_private.torch_hooks import timed_backend
from .describe import dtype_text, tensor_text
from .files import is_user_file

_CALLS = frozenset({"call_function", "call_method", "call_module"})
_STACK_LINE = re.compile(r'^\s*File "(.*?)", line (\d+), in (.*)$', re.MULTILINE)
_MAX_ARGUMENT = 500

RANGE_PREFIX = "graphdoctor_graph "
"""Profiler ranges of compiled graphs, each followed by the graph's index."""


class GraphRuns:
    """Watches runs of compiled graphs when asked to; otherwise costs one attribute test per run."""

    def __init__(self) -> None:
        self.watched: Literal["count", "time"] | None = None
        """Put them in profiler ranges of their own to ``count`` them, or note the ``time`` of each."""
        self.timeline: list[tuple[int, float, float]] = []
        """Index of the graph, start and end by ``time.perf_counter``, while timing."""
        self.tensor_ops: dict[int, int] = {}
        """Tensor operations of each graph, by its index."""


class InstrumentedBackend:
    """Wraps any registered backend. Without ``runs``, compiled graphs stay as they are, with nothing of ours around."""

    def __init__(
        self, name: str, inner: Callable[..., Any], runs: GraphRuns | None, want_file: Callable[[str], None]
    ) -> None:
        self.__name__ = name
        self._describe = GraphDescriber(want_file)
        self._inner = inner
        self._runs = runs

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """Compile one graph; inside a named range while runs are counted."""
        artifact = {**self._describe(gm), "backend": self.__name__}
        with timed_backend(artifact, partial(torch_api.write_artifact, "graphdoctor_graph")):
            compiled: Callable[..., Any] = self._inner(gm, example_inputs)
        if self._runs is None:
            return compiled
        self._runs.tensor_ops[artifact["index"]] = artifact["tensor_op_count"]
        return _watched(compiled, artifact["index"], self._runs)


def _watched(compiled: Callable[..., Any], index: int, runs: GraphRuns) -> Callable[..., Any]:
    def run(*args: Any) -> Any:  # noqa: ANN401
        if runs.watched is None:
            return compiled(*args)
        if runs.watched == "count":
            with torch.profiler.record_function(f"{RANGE_PREFIX}{index}"):
                return compiled(*args)
        started = time.perf_counter()
        output = compiled(*args)
        runs.timeline.append((index, started, time.perf_counter()))
        return output

    # Attributes such as _boxed_call tell Dynamo how to call it.
    run.__dict__.update(getattr(compiled, "__dict__", {}) if not isinstance(compiled, torch.nn.Module) else {})
    return run


@lru_cache(maxsize=4096)  # many nodes have one stack
def places_in(stack: str | None) -> tuple[tuple[str, int, str], ...]:
    """File, line and function of each line of a node's ``stack_trace``, outermost first."""
    return tuple((file, int(line), name) for file, line, name in _STACK_LINE.findall(stack or ""))


class GraphDescriber:
    """Describes graphs (inputs, nodes, operation counts), numbered in the order in which they reach the backend."""

    def __init__(self, want_file: Callable[[str], None]) -> None:
        self._want_file = want_file
        self.count = 0
        """Graphs so far."""

    def __call__(self, gm: torch.fx.GraphModule) -> dict[str, Any]:
        """Describe a graph; the files in its stacks are wanted."""
        # Torch's files too, and those of the bodies of higher-order operators.
        graphs = (module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule))
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

    A higher-order operator (checkpointing, ``cond``) counts as the operations in its bodies. Items of a tuple of
    results, arithmetic on sizes and tensors that Dynamo makes from numbers don't count: none is a tensor operation in
    eager mode.
    """
    return sum(_tensor_ops_of(node, gm) for node in gm.graph.nodes if node.op in _CALLS)


def _tensor_ops_of(node: torch.fx.Node, gm: torch.fx.GraphModule) -> int:
    taken = (getattr(gm, str(each.target), None) for each in node.all_input_nodes if each.op == "get_attr")
    if bodies := [body for body in taken if isinstance(body, torch.fx.GraphModule)]:
        return sum(map(tensor_op_count, bodies))
    base = node.args[0] if node.args and getattr(node.target, "__name__", None) == "getitem" else None
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
        shape=tuple(size if type(size) is int else str(size) for size in value.shape),
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
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return str(value)
    return None


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_ARGUMENT else text[: _MAX_ARGUMENT - 1] + "…"
