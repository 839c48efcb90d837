"""CUDA graphs, by torch's private names, 2.11 to 2.15: whether they are asked for, skipped,
recorded.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import torch

from ...facts.kernels import GraphPartitions
from ..events import EventFile
from .replacing import Undo
from .torch_api import counters, current_compile_id

_SKIP_LOGGERS = (
    "torch._inductor.cudagraph_utils.__cudagraphs",
    "torch._inductor.cudagraph_utils.__perf_hints",
)
_LOGS_SKIP = "log_cudagraph_skip_and_bump_counter"
"""``torch/_inductor/cudagraph_utils.py``: logs to the first of these loggers since 2.10, before
that to the second, and counts. Graphs without a CUDA device are only counted
(``CompiledFxGraph.__init__``, ``torch/_inductor/output_code.py``, 2.13)."""

_PARTITION_LOGGER, _LOGS_LEFT_OUT = (
    "torch._inductor.scheduler.__cudagraphs",
    "_log_non_cudagraphable_node",
)
"""Graph partition records what is before and after an operation that can't be in a CUDA graph as
CUDA graphs of their own, and only says so in its debug log (``torch/_inductor/scheduler.py``,
2.13): a line with the reason, then the lines of a stack."""

_LOGS_PARTITIONS = "_log_graph_partitions"
"""Its first record, before those, has three numbers: all partitions, those that can be CUDA graphs,
and the others."""

_REASON = "reason="
"""What torch's words on an operation begin with; a line of a stack doesn't."""

_TREES = "torch._inductor.cudagraph_trees"


def asks_for_cuda_graphs(backend: str, mode: str | None, options: Mapping[str, object]) -> bool:
    """torch.compile with these arguments is to use CUDA graphs."""
    if backend != "inductor":
        return backend == "cudagraphs"
    name = "triton.cudagraphs"
    if name in options:
        return bool(options[name])
    from torch._inductor import config

    in_mode = torch._inductor.list_mode_options().get(mode or "default", {})
    return bool(in_mode.get(name, config.triton.cudagraphs))


class CudaGraphWatch:
    """Listens to torch's reasons from when it is made until ``close``; none reach the program's
    log.
    """

    def __init__(self) -> None:
        self._skipped: list[dict[str, str | None]] = []
        self._left_out: list[dict[str, str | None]] = []
        self._partitions: list[GraphPartitions] = []
        self._counted_before = _counted_skips()
        self._ends = contextlib.ExitStack()
        for name in _SKIP_LOGGERS:
            self._listen(logging.getLogger(name), self._on_skip)
        scheduler = logging.getLogger(_PARTITION_LOGGER)
        was_enabled = scheduler.isEnabledFor(logging.DEBUG)
        self._listen(scheduler, lambda record: self._on_partition(record, was_enabled=was_enabled))
        self._ends.callback(scheduler.setLevel, scheduler.level)
        scheduler.setLevel(logging.DEBUG)

    def _listen(
        self, logger: logging.Logger, listener: Callable[[logging.LogRecord], bool]
    ) -> None:
        logger.addFilter(listener)
        self._ends.callback(logger.removeFilter, listener)

    def close(self) -> None:
        """Stop listening."""
        self._ends.close()

    def _on_skip(self, record: logging.LogRecord) -> bool:
        if record.funcName == _LOGS_SKIP:
            self._skipped.append(
                {"reason": record.getMessage(), "compile_id": current_compile_id()}
            )
        return True

    def _on_partition(self, record: logging.LogRecord, *, was_enabled: bool) -> bool:
        match record.funcName, record.args:
            case (found, (*_, text)) if found == _LOGS_LEFT_OUT:
                if str(text).startswith(_REASON):
                    self._left_out.append({"reason": str(text), "compile_id": current_compile_id()})
                elif self._left_out:
                    last = self._left_out[-1]
                    last["reason"] = f"{last['reason']}\n{text}"
            case (found, (int(count), int(recordable), _)) if found == _LOGS_PARTITIONS:
                self._partitions.append(
                    GraphPartitions(
                        compile_id=current_compile_id(), count=count, recordable=recordable
                    )
                )
        return was_enabled or record.levelno > logging.DEBUG

    def report(self, events: EventFile) -> None:
        """Write what is known so far."""
        silent = _counted_skips() - self._counted_before - len(self._skipped)
        skipped = [*self._skipped, *({"reason": None, "compile_id": None} for _ in range(silent))]
        has_device = torch.cuda.is_available()
        functions, captured = recorded_functions() or (None, None)
        if has_device and not captured and not skipped:
            captured = None
            why = (
                "it records a graph in its second call, and there was none"
                if functions
                else "it says nothing of them"
            )
            events.gap("cuda_graphs", f"Whether torch uses CUDA graphs is unknown: {why}.")
        events.write(
            "cuda_graphs",
            has_device=has_device,
            captured=captured,
            skipped=skipped,
            left_out=self._left_out,
            partitions=self._partitions,
            functions=functions,
        )


def _counted_skips() -> int:
    return counters().get("inductor", {}).get("cudagraph_skips", 0)


def recorded_functions() -> tuple[list[dict[str, Any]], int] | None:
    """The functions that torch is to record as CUDA graphs in a second call, and for how many sizes
    it has.

    ``CUDAGraphTreeManager`` (``torch/_inductor/cudagraph_trees.py``, 2.11 to 2.15) has a function
    for each graph, or partition of one, and size of its inputs, and a tree of recordings. None if
    this torch keeps them elsewhere.
    """
    if (trees := sys.modules.get(_TREES)) is None:
        return [], 0
    try:
        containers = trees.local.tree_manager_containers.values()
        found = [
            _functions(each.tree_manager) for each in containers if each.tree_manager is not None
        ]
    except (AttributeError, KeyError, IndexError):
        return None
    return [function for functions, _ in found for function in functions], sum(
        captured for _, captured in found
    )


def awaits_backward() -> bool:
    """Whether torch can't launch what it recorded, because outputs of earlier calls await their
    backward pass.

    It records a function anew in each call then, and warns once:
    ``check_warn_on_unable_to_start_executing`` (``torch/_inductor/cudagraph_trees.py``, 2.11 to
    2.15).
    """
    try:
        containers = sys.modules[_TREES].local.tree_manager_containers.values()
        return any(
            bool(each.tree_manager.warned_functions)
            for each in containers
            if each.tree_manager is not None
        )
    except (AttributeError, KeyError):
        return False


def launch_one_by_one() -> Undo:
    """Have what is recorded as CUDA graphs launch each kernel by itself, so that the profiler sees
    its operation.

    torch uses CUDA graphs for the sizes that a setting names (``is_cudagraph_capture_sizes``,
    ``torch/_inductor/cudagraph_trees.py``, 2.11 to 2.15), here for none. ``AttributeError`` if
    there is no such setting.
    """
    from torch._inductor import config

    settings: Any = config.triton
    undo = partial(setattr, settings, "cudagraph_capture_sizes", settings.cudagraph_capture_sizes)
    settings.cudagraph_capture_sizes = ()
    return undo


def _functions(manager: Any) -> tuple[list[dict[str, Any]], int]:
    found: dict[int, dict[str, Any]] = {}
    captured = 0
    recordings = list(_recordings(manager.roots))
    for number, wrapped in manager.ids_to_funcs.items():
        compile_id = manager.id_to_compile_id[number]
        # One function is wrapped anew for each size.
        function = found.setdefault(
            id(wrapped.model),
            {
                "compile_id": None if compile_id is None else str(compile_id),
                "phase": "backward" if manager.id_to_mode[number].name == "BACKWARD" else "forward",
                "name": manager.get_func_name(number),
                **dict.fromkeys(("sizes", "recordings", "rerecordings"), 0),
                **{part: [] for part in ("copied", "moved", "mutated")},
            },
        )
        written = [
            index for index in wrapped.mutated_input_idxs if index not in wrapped.static_input_idxs
        ]
        function["mutated"] = [wrapped.placeholders[index].name for index in written]
        own = [alike for of, alike in recordings if of == number]
        function["sizes"] += 1
        captured += bool(own)
        for alike in own:
            function["recordings"] += len(alike)
            function["rerecordings"] += len(alike) - 1
            function["copied"] = [_input(alike[-1], index) for index in _copied(alike[-1])]
            for before, after in pairwise(alike):
                known = {each["placeholder"] for each in function["moved"]}
                moved = [_input(after, index) for index in _moved(before, after)]
                function["moved"] += [each for each in moved if each["placeholder"] not in known]
    return [*found.values()], captured


def _recordings(nodes: Mapping[Any, list[Any]]) -> Iterator[tuple[Any, list[Any]]]:
    for number, alike in nodes.items():
        if alike:
            yield number, alike
        for recording in alike:
            yield from _recordings(recording.children)


def _copied(recording: Any) -> Iterator[int]:
    # torch 2.15 can also copy what another CUDA graph made.
    for index in getattr(recording, "input_copy_idxs", recording.non_static_input_idx):
        if isinstance(recording.reconstructed_inputs[index], torch.Tensor):
            yield index


def _moved(before: Any, after: Any) -> Iterator[int]:
    pairs = zip(before.static_input_data_ptrs, after.static_input_data_ptrs, strict=True)
    return (index for index, (one, other) in enumerate(pairs) if one != other)


def _input(recording: Any, index: int) -> dict[str, object]:
    tensor = recording.reconstructed_inputs[index]
    # What an expanded dim repeats is copied once.
    copied = prod(
        size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride
    )
    name = recording.wrapped_function.placeholders[index].name
    return {
        "placeholder": name,
        "shape": list(tensor.shape),
        "bytes": copied * tensor.element_size(),
    }
