"""Measures how much of one steady call runs in compiled graphs, and when each graph runs.

``torch.profiler`` sees every ``aten::`` operation; the instrumented backend puts a named range around each compiled
graph while this pass runs. (A ``TorchDispatchMode`` won't do: while one is active, Dynamo bypasses compiled code.)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ...facts.recording import GraphRun, SteadyCall
from ..record.backend import GraphRuns
from ..torch_private import torch_api

RANGE_PREFIX = "graphdoctor_graph "
"""Profiler ranges of compiled graphs, each followed by the graph's index."""

BACKWARD_RANGE = "graphdoctor_backward"
"""Profiler range of what backward adds to a call."""

CONVERSION_RANGE = "graphdoctor_conversion"
"""Profiler range of what Dynamo's code converts after a graph."""

_BACKWARD_PREFIX = "autograd::engine::evaluate_function"
_OPERATION = "aten::"
_NOT_EAGER = (
    _OPERATION,
    RANGE_PREFIX,
    BACKWARD_RANGE,
    CONVERSION_RANGE,
    _BACKWARD_PREFIX,
    *torch_api.PROFILED_OVERHEAD,
)
_TIMED_CALLS = 15
_TIMED_S = 0.3


@dataclass(frozen=True)
class CountedOps:
    """The operations of one call.

    Args:
        graph_ops: Tensor operations that ran in compiled graphs.
        eager_ops: Outermost operations outside any graph, by name.
    """

    graph_ops: int
    eager_ops: Counter[str]


def measure(call: Callable[[], Any], runs: GraphRuns) -> CountedOps:
    """Run one call under the profiler."""
    runs.runs.clear()
    eager = Counter(event.name for event in profiled(call, runs) if is_eager(event))
    return CountedOps(sum(runs.tensor_ops[name] * count for name, count in runs.runs.items()), eager)


def profiled(call: Callable[[], Any], runs: GraphRuns) -> list[Any]:
    """The profiler's events of one call, compiled graphs and Dynamo's conversions under ranges of their own."""
    runs.watched = "count"
    try:
        with (
            torch_api.marked_conversions(CONVERSION_RANGE),
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler,
        ):
            call()
    finally:
        runs.watched = None
    return list(profiler.events())


def time_runs(call: Callable[[], Any], runs: GraphRuns) -> SteadyCall:
    """When each graph runs in a call, in the call of median length among several."""
    timelines: list[tuple[float, list[tuple[int, float, float]]]] = []
    ends = time.perf_counter() + _TIMED_S
    runs.watched = "time"
    try:
        while not timelines or (time.perf_counter() < ends and len(timelines) < _TIMED_CALLS):
            runs.timeline = []
            # The previous call may have left work on the device, which this one would wait for.
            torch_api.synchronize()
            began = time.perf_counter()
            call()
            took = time.perf_counter() - began
            timelines.append((took, [(index, start - began, end - began) for index, start, end in runs.timeline]))
    finally:
        runs.watched = None
    took, timeline = sorted(timelines, key=lambda item: item[0])[len(timelines) // 2]
    ran = (GraphRun(graph=index, start_us=start * 1e6, end_us=end * 1e6) for index, start, end in timeline)
    return SteadyCall(call_us=took * 1e6, runs=tuple(ran))


def is_eager(event: Any) -> bool:  # noqa: ANN401
    """An outermost operation, outside every compiled graph, and neither autograd's nor Dynamo's own."""
    if not event.name.startswith(_OPERATION):
        return False
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith(_NOT_EAGER):
            return False
        parent = parent.cpu_parent
    return True


def eager_operations(ranges: Iterable[str | None]) -> Iterator[str]:
    """The names of the operations that ``is_eager``, in one thread.

    Args:
        ranges: The name of each range where it begins, and None where the last one that began ends.
    """
    around: list[bool] = []
    for name in ranges:
        if name is None:
            if around:
                around.pop()
            continue
        is_inside = bool(around) and around[-1]
        if not is_inside and name.startswith(_OPERATION):
            yield name
        around.append(is_inside or name.startswith(_NOT_EAGER))
