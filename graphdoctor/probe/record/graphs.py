"""Writes down graphs: those that reach a backend, as ``graphdoctor_graph`` artifacts, and which
operations are in which kernel of Inductor's, as ``graphdoctor_inductor_graph``.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from torch import SymBool, SymFloat, SymInt, Tensor
from torch.fx import GraphModule, Node
from torch.nn import Parameter

from ...facts.base import Fields
from ...facts.recording import GraphInput, GraphNode
from ...wording import clipped
from ..torch_private import torch_codegen
from ..torch_private.torch_api import (
    Undo,
    is_number_made_tensor,
    node_module,
    node_value,
    placeholder_source,
    write_artifact,
)
from ..torch_private.torch_codegen import GeneratedGraph, KeptTensor, PartitionWatch, is_view
from ..torch_private.torch_hooks import watch_graphs
from .describe import dtype_text, tensor_text
from .files import is_user_file

_CALLS = frozenset({"call_function", "call_method", "call_module"})
_STACK_LINE = re.compile(r'^\s*File "(.*?)", line (\d+), in (.*)$', re.MULTILINE)
_SYMBOLS = (SymInt, SymFloat, SymBool)
_MAX_ARGUMENT = 500

Place = tuple[str, int, str]
"""File, line and function."""


@lru_cache(maxsize=4096)  # many nodes have one stack
def places_in(stack: str | None) -> tuple[Place, ...]:
    """Read file, line and function of each line of a node's ``stack_trace``, outermost first."""
    return tuple((file, int(line), name) for file, line, name in _STACK_LINE.findall(stack or ""))


class GraphCounter:
    """Counts the operations of graphs, numbered in the order in which they reach the backend."""

    def __init__(self) -> None:
        self.count = 0
        """Graphs so far."""
        self.latest: tuple[int, int] | None = None
        """Index and tensor operations of the graph that a backend compiled last."""

    def install(self) -> Undo:
        """Look at graphs from now on."""
        return watch_graphs(before=self._described, after=self._note)

    def _note(self, artifact: Fields) -> None:
        self.latest = artifact["index"], artifact["tensor_op_count"]

    def _described(self, gm: GraphModule) -> Fields:
        self.count += 1
        return {"index": self.count - 1, "tensor_op_count": tensor_op_count(gm)}


class GraphRecorder(GraphCounter):
    """Writes down graphs, and has the files in their stacks wanted."""

    def __init__(self, want_file: Callable[[str], None]) -> None:
        super().__init__()
        self._want_file = want_file

    def _note(self, artifact: Fields) -> None:
        write_artifact("graphdoctor_graph", artifact)
        super()._note(artifact)

    def _described(self, gm: GraphModule) -> Fields:
        # Torch's files too, and those of the bodies of higher-order operators.
        for module in gm.modules():
            for node in module.graph.nodes if isinstance(module, GraphModule) else ():
                for file, _, _ in places_in(node.stack_trace):
                    self._want_file(file)
        nodes = list(gm.graph.nodes)
        return super()._described(gm) | {
            "op_count": sum(node.op in _CALLS for node in nodes),
            "inputs": [_described_input(node) for node in nodes if node.op == "placeholder"],
            "nodes": list(map(_described_node, nodes)),
        }


def tensor_op_count(gm: GraphModule) -> int:
    """Count the calls in a graph that compute a tensor.

    A higher-order operator (checkpointing, ``cond``) counts as the operations in its bodies. Items
    of a tuple of results, arithmetic on sizes and tensors that Dynamo makes from numbers don't
    count: none is a tensor operation in eager mode.
    """
    count = 0
    for node in gm.graph.nodes:
        if node.op not in _CALLS:
            continue
        attributes = (it.target for it in node.all_input_nodes if it.op == "get_attr")
        parts = [getattr(gm, str(name), None) for name in attributes]
        if bodies := [part for part in parts if isinstance(part, GraphModule)]:
            count += sum(map(tensor_op_count, bodies))
            continue
        is_item = node.args and getattr(node.target, "__name__", None) == "getitem"
        base = node.args[0] if is_item else None
        if not (isinstance(base, Node) and isinstance(node_value(base), tuple | list)):
            count += _has_tensor(node_value(node)) and not is_number_made_tensor(node)
    return count


def _has_tensor(value: object) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_tensor, value))
    return isinstance(value, Tensor)


def _described_input(node: Node) -> GraphInput:
    value = node_value(node)
    source = placeholder_source(node)
    if not isinstance(value, Tensor):
        is_symbol = isinstance(value, _SYMBOLS)
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
        is_parameter=isinstance(value, Parameter) or is_named,
    )


def _described_node(node: Node) -> GraphNode:
    places = (place for place in reversed(places_in(node.stack_trace)) if is_user_file(place[0]))
    file, line, _ = next(places, (None, None, None))
    return GraphNode(
        name=node.name,
        opcode=node.op,
        target=node._pretty_print_target(node.target),
        args=clipped(", ".join(map(str, node.args)), _MAX_ARGUMENT),
        kwargs=clipped(
            ", ".join(f"{key}={value}" for key, value in node.kwargs.items()), _MAX_ARGUMENT
        ),
        value=_value_text(node_value(node)),
        inputs=tuple(taken.name for taken in node.all_input_nodes),
        file=file,
        line=line,
        module=node_module(node),
    )


def _value_text(value: object) -> str | None:
    if isinstance(value, Tensor):
        return tensor_text(value)
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_value_text(item) or "?" for item in value) + ")"
    return str(value) if isinstance(value, _SYMBOLS) else None


# Graphs for which Inductor generated code.


class CodegenRecorder:
    """Writes an artifact for each graph; ``partitions`` has what one keeps for its backward graph,
    or None.
    """

    def __init__(
        self, want_file: Callable[[str], None], partitions: PartitionWatch | None = None
    ) -> None:
        self._want_file = want_file
        self._partitions = partitions
        self.factor_dtypes: set[str] = set()
        """Of all matrix products and convolutions."""
        self.elementwise: set[str] = set()
        """Operations on single elements of all kernels, as ``InductorKernel`` names them."""

    def record(self, graph: GeneratedGraph) -> None:
        """Write down a graph."""
        write_artifact("graphdoctor_inductor_graph", self.described(graph))

    def described(self, graph: GeneratedGraph) -> Fields:
        """Return the fields of ``InductorGraph``; an operation's stack is its index in
        ``stacks``.
        """
        stacks: dict[tuple[Place, ...], int] = {}

        def place_of(node: Node) -> Fields:
            stack = tuple(place for place in places_in(node.stack_trace) if is_user_file(place[0]))
            for file, _, _ in stack:
                self._want_file(file)
            number = stacks.setdefault(stack, len(stacks)) if stack else None
            return {"stack": number, "module": node_module(node)}

        nodes = [node for node in graph.nodes if node.op == "call_function"]
        index = {node: number for number, node in enumerate(nodes)}
        kernels_of: dict[Node, set[int]] = {node: set() for node in nodes}
        kernels = []
        for number, (kernel, computed) in enumerate(graph.kernels):
            for node in computed:
                kernels_of.setdefault(node, set()).add(number)
            places = sorted(index[node] for node in computed if node in index)
            operations = tuple(place for place in places if not is_view(nodes[place]))
            kernels.append(kernel.replace(operations=operations or tuple(places)))
            self.factor_dtypes.update(filter(None, [kernel.dtype]))
            self.elementwise.update(kernel.elementwise or ())
        described = [
            _operation(node, kernels_of, is_written=node in graph.stored) | place_of(node)
            for node in nodes
        ]
        partition = None
        if self._partitions is not None and graph.phase == "forward":
            partition = self._partitions.take()
        return {
            "graph": graph.number,
            "phase": graph.phase,
            "operations": described,
            "kernels": kernels,
            "partition": None
            if partition is None
            else {
                "saved": [_saved(kept, place_of) for kept in partition.kept],
                "recomputed": dict(Counter(map(torch_codegen.operation_of, partition.recomputed))),
                "draws_random": partition.draws_random,
            },
            "stacks": [list(stack) for stack in stacks],
        }


def _saved(kept: KeptTensor, place_of: Callable[[Node], Fields]) -> Fields:
    node = kept.node
    value = kept.node.meta["val"]
    made = dict.fromkeys(("operation", "stack", "module"))
    if not kept.is_argument:
        # Of an item of what an operation returns, the operation if it isn't known to be of another.
        is_item = node.target is operator.getitem and not node.meta.get("original_aten")
        source = node.all_input_nodes[0] if is_item else node
        made = {"operation": torch_codegen.operation_of(source), **place_of(node)}
    shape = ", ".join(map(str, torch_codegen.shape(value) or value.shape))
    return {
        "name": kept.name,
        "tensor": f"{dtype_text(value.dtype)}[{shape}]",
        "bytes": torch_codegen.value_bytes(node),
        "is_argument": kept.is_argument,
        "is_cheap": kept.is_cheap,
        **made,
    }


def _operation(node: Node, kernels_of: dict[Node, set[int]], *, is_written: bool) -> Fields:
    # Its value gets to memory if it has a buffer, the graph returns it, or a kernel reads it that
    # doesn't compute it as well.
    kernels = kernels_of.get(node, set())
    return {
        "name": node.name,
        "operation": torch_codegen.operation_of(node),
        "target": torch_codegen.target_of(node),
        "is_view": is_view(node),
        "bytes": torch_codegen.value_bytes(node),
        "elements": torch_codegen.elements(node),
        "dtype": torch_codegen.dtype_name(node),
        "input_dtypes": torch_codegen.input_dtypes(node),
        "is_stored": is_written
        or any(
            reader.op == "output" or not kernels_of.get(reader, {-1}) <= kernels
            for reader in torch_codegen.readers(node)
        ),
    }
