"""Writes down which operations of the program are in which kernel of Inductor's.

Comes in: each graph for which Inductor generated code. Goes out: a ``graphdoctor_inductor_graph`` artifact, under the
compile that is under way.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from ..torch_private import torch_api
from ..torch_private.torch_codegen import (
    GeneratedGraph,
    elements,
    is_view,
    module_of,
    operation_of,
    readers,
    value_bytes,
)
from ..torch_private.torch_flops import dtype_name, input_dtypes
from ..wire import InductorGraphArtifact, InductorKernelRecord, InductorOperationRecord
from .files import user_file_test

_STACK_LINE = re.compile(r'^\s*File "(.*?)", line (\d+), in (.*)$', re.MULTILINE)

StackTable = dict[tuple[tuple[str, int, str], ...], int]
"""Index of each stack."""


class CodegenRecorder:
    """Writes an artifact for each graph.

    Args:
        want_file: Requests a file's text.
    """

    def __init__(self, want_file: Callable[[str], None]) -> None:
        self._want_file = want_file
        self.factor_dtypes: set[str] = set()
        """Of all matrix products and convolutions."""

        self._is_user_file = user_file_test()

    def record(self, graph: GeneratedGraph) -> None:
        """Write what is known of a graph.

        Args:
            graph: The graph, whose code was generated just now.
        """
        torch_api.write_artifact("graphdoctor_inductor_graph", self.described(graph))

    def described(self, graph: GeneratedGraph) -> InductorGraphArtifact:
        """A graph's operations and kernels.

        Args:
            graph: The graph.
        """
        stacks: StackTable = {}
        nodes = [node for node in graph.nodes if node.op == "call_function"]
        index = {node: number for number, node in enumerate(nodes)}
        kernels_of: dict[torch.fx.Node, set[int]] = {node: set() for node in nodes}
        for number, kernel in enumerate(graph.kernels):
            for node in kernel.nodes:
                kernels_of.setdefault(node, set()).add(number)
        records: list[InductorKernelRecord] = []
        for kernel in graph.kernels:
            if kernel.dtype is not None:
                self.factor_dtypes.add(kernel.dtype)
            known = sorted(index[node] for node in kernel.nodes if node in index)
            computed = [number for number in known if not is_view(nodes[number])]
            records.append(
                InductorKernelRecord(
                    name=kernel.name,
                    kind=kernel.kind,
                    operations=computed or known,
                    bytes=kernel.bytes,
                    flops=kernel.flops,
                    dtype=kernel.dtype,
                )
            )
        return InductorGraphArtifact(
            graph=graph.number,
            phase=graph.phase,
            operations=[self._operation(node, kernels_of, stacks) for node in nodes],
            kernels=records,
            stacks=[list(stack) for stack in stacks],
        )

    def _operation(
        self, node: torch.fx.Node, kernels_of: dict[torch.fx.Node, set[int]], stacks: StackTable
    ) -> InductorOperationRecord:
        entries = [(file, int(line), name) for file, line, name in _STACK_LINE.findall(node.stack_trace or "")]
        stack = tuple(entry for entry in entries if self._is_user_file(entry[0]))
        for file, _, _ in stack:
            self._want_file(file)
        return InductorOperationRecord(
            name=node.name,
            operation=operation_of(node),
            target=str(node.target),
            is_view=is_view(node),
            bytes=value_bytes(node),
            elements=elements(node),
            dtype=dtype_name(node),
            input_dtypes=input_dtypes(node),
            is_stored=_is_stored(node, kernels_of),
            stack=stacks.setdefault(stack, len(stacks)) if stack else None,
            module=module_of(node),
        )


def _is_stored(node: torch.fx.Node, kernels_of: dict[torch.fx.Node, set[int]]) -> bool:
    """Whether a value gets to memory: the graph returns it, or a kernel reads it that doesn't compute it as well."""
    own = kernels_of.get(node, set())
    return any(reader.op == "output" or not kernels_of.get(reader, {-1}) <= own for reader in readers(node))
