"""Counts what Inductor fused in the graphs that ran in a call.

Comes in: the graphs for which code was generated, and their runs. Goes out: ``Fusion``. Operations are counted where
they compute something; views don't.
"""

from __future__ import annotations

from graphdoctor.facts.profile import Fusion
from graphdoctor.facts.profiled import InductorGraph, Profiled


def fusion_of(profiled: Profiled) -> Fusion | None:
    """What was fused; None if no graph of Inductor's ran.

    Args:
        profiled: What was recorded.
    """
    known = {(graph.graph, graph.phase): graph for graph in profiled.graphs}
    runs = [known[run.graph, run.phase] for run in profiled.call.runs if (run.graph, run.phase) in known]
    if not runs:
        return None
    vanished = [operation for graph in runs for operation in _vanished(graph)]
    sizes = [operation for operation in vanished if operation is not None]
    eager = profiled.call.eager
    return Fusion(
        operations=sum(_before(graph) for graph in runs),
        decomposed=sum(not operation.is_view for graph in runs for operation in graph.operations),
        kernels=sum(len(graph.kernels) for graph in runs),
        vanished=len(vanished),
        vanished_bytes=sum(sizes) if len(sizes) == len(vanished) else None,
        eager_launches=None if eager is None else eager.launches,
        launches=len(profiled.call.kernels),
    )


def _vanished(graph: InductorGraph) -> list[int | None]:
    """Sizes of the values that never get to memory."""
    computed = {number for kernel in graph.kernels for number in kernel.operations}
    return [
        operation.bytes
        for number, operation in enumerate(graph.operations)
        if number in computed and not operation.is_view and not operation.is_stored
    ]


def _before(graph: InductorGraph) -> int:
    """Operations before decomposition: neighbors of one operation at one line in one module are one."""
    count = 0
    last: object = None
    for operation in graph.operations:
        if operation.is_view:
            continue
        same = (operation.operation, operation.stack[-1:], operation.module)
        count += operation.operation == operation.target or same != last
        last = same
    return count
