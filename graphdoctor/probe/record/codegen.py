"""Writes down, as ``graphdoctor_inductor_graph``, which operations of the program are in which
kernel of Inductor's.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from ...facts.profiled import InductorKernel
from ..torch_private import torch_api
from ..torch_private.torch_codegen import (
    GeneratedGraph,
    KeptTensor,
    Partition,
    PartitionWatch,
    dtype_name,
    elements,
    input_dtypes,
    is_view,
    operation_of,
    readers,
    shape,
    target_of,
    value_bytes,
)
from .backend import places_in
from .describe import dtype_text
from .files import is_user_file

StackTable = dict[tuple[tuple[str, int, str], ...], int]
"""Index of each stack."""


class CodegenRecorder:
    """Writes an artifact for each graph; ``partitions`` knows what one keeps for its backward
    graph, or None.
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
        """Write what is known of a graph."""
        torch_api.write_artifact("graphdoctor_inductor_graph", self.described(graph))

    def described(self, graph: GeneratedGraph) -> dict[str, Any]:
        """The fields of ``InductorGraph``; an operation's stack is its index in ``stacks``."""
        stacks: StackTable = {}
        nodes = [node for node in graph.nodes if node.op == "call_function"]
        index = {node: number for number, node in enumerate(nodes)}
        kernels_of: dict[torch.fx.Node, set[int]] = {node: set() for node in nodes}
        kernels: list[InductorKernel] = []
        for number, (kernel, own) in enumerate(graph.kernels):
            for node in own:
                kernels_of.setdefault(node, set()).add(number)
            known = sorted(index[node] for node in own if node in index)
            computed = tuple(each for each in known if not is_view(nodes[each]))
            kernels.append(kernel.replace(operations=computed or tuple(known)))
        self.factor_dtypes |= {kernel.dtype for kernel in kernels if kernel.dtype is not None}
        self.elementwise.update(*(kernel.elementwise or () for kernel in kernels))
        operations = [self._operation(node, kernels_of, stacks) for node in nodes]
        found = (
            self._partitions.take()
            if self._partitions is not None and graph.phase == "forward"
            else None
        )
        return {
            "graph": graph.number,
            "phase": graph.phase,
            "operations": operations,
            "kernels": kernels,
            "partition": None if found is None else self._partition(found, stacks),
            "stacks": [list(stack) for stack in stacks],
        }

    def _partition(self, found: Partition, stacks: StackTable) -> dict[str, object]:
        return {
            "saved": [self._saved(kept, stacks) for kept in found.kept],
            "recomputed": dict(Counter(map(operation_of, found.recomputed))),
            "draws_random": found.draws_random,
        }

    def _saved(self, kept: KeptTensor, stacks: StackTable) -> dict[str, object]:
        node, is_argument = kept.node, kept.is_argument
        return {
            "name": kept.name,
            "operation": None if is_argument else operation_of(_source(node)),
            "tensor": _tensor_text(node),
            "bytes": value_bytes(node),
            "is_argument": is_argument,
            "is_cheap": kept.is_cheap,
            "stack": None if is_argument else self._stack(node, stacks),
            "module": None if is_argument else torch_api.node_module(node),
        }

    def _operation(
        self, node: torch.fx.Node, kernels_of: dict[torch.fx.Node, set[int]], stacks: StackTable
    ) -> dict[str, object]:
        # Its value gets to memory if the graph returns it, or a kernel reads it that doesn't
        # compute it as well.
        own = kernels_of.get(node, set())
        is_stored = any(
            each.op == "output" or not kernels_of.get(each, {-1}) <= own for each in readers(node)
        )
        return {
            "name": node.name,
            "operation": operation_of(node),
            "target": target_of(node),
            "is_view": is_view(node),
            "bytes": value_bytes(node),
            "elements": elements(node),
            "dtype": dtype_name(node),
            "input_dtypes": input_dtypes(node),
            "is_stored": is_stored,
            "stack": self._stack(node, stacks),
            "module": torch_api.node_module(node),
        }

    def _stack(self, node: torch.fx.Node, stacks: StackTable) -> int | None:
        stack = tuple(place for place in places_in(node.stack_trace) if is_user_file(place[0]))
        for file, _, _ in stack:
            self._want_file(file)
        return stacks.setdefault(stack, len(stacks)) if stack else None


def _source(node: torch.fx.Node) -> torch.fx.Node:
    """The node itself; of an item of what an operation returns, the operation if it isn't known to
    be of another.
    """
    is_item = node.target is operator.getitem and not node.meta.get("original_aten")
    return node.all_input_nodes[0] if is_item else node


def _tensor_text(node: torch.fx.Node) -> str:
    value = node.meta["val"]
    return f"{dtype_text(value.dtype)}[{', '.join(map(str, shape(value) or value.shape))}]"
