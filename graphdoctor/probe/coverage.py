"""Measures how much of one steady call runs in compiled graphs.

``torch.profiler`` sees every ``aten::`` operation; the instrumented backend puts a named range around each compiled
graph while this pass runs. (A ``TorchDispatchMode`` is no way: while one is active Dynamo bypasses compiled code.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from . import torch_api
from .backend import GraphRuns

_RANGE_PREFIX = "graphdoctor_graph "
_CONVERSION_RANGE = "graphdoctor_conversion"
_BACKWARD_PREFIX = "autograd::engine::evaluate_function"
_NOT_EAGER = ("aten::", _RANGE_PREFIX, _CONVERSION_RANGE, _BACKWARD_PREFIX, *torch_api.PROFILED_OVERHEAD)
_MAX_NAMES = 20


def measure(call: Callable[[], Any], runs: GraphRuns) -> dict[str, Any]:
    """Run one call under the profiler.

    Args:
        call: Makes the call; no compile may happen in it.
        runs: The backend's counter of graph runs.

    Returns:
        ``graph_ops``, ``eager_ops`` and ``eager_op_names`` of the recording's ``Coverage``.
    """
    runs.runs.clear()
    runs.is_counting = True
    try:
        with (
            torch_api.marked_conversions(_CONVERSION_RANGE),
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler,
        ):
            call()
    finally:
        runs.is_counting = False
    eager = Counter(event.name for event in profiler.events() if event.name.startswith("aten::") and _is_eager(event))
    return {
        "graph_ops": sum(runs.tensor_ops[name] * count for name, count in runs.runs.items()),
        "eager_ops": eager.total(),
        "eager_op_names": dict(eager.most_common(_MAX_NAMES)),
    }


def _is_eager(event: Any) -> bool:  # noqa: ANN401
    """The operation is outermost, outside every compiled graph, and neither autograd's nor Dynamo's own."""
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith(_NOT_EAGER):
            return False
        parent = parent.cpu_parent
    return True
