"""The private names of torch's CUDA graphs: whether they are asked for, why some are skipped, which were recorded.

Seen on 2.11.0, 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import torch

from .replacing import Undo
from .torch_api import counters

_SKIP_LOGGERS = ("torch._inductor.cudagraph_utils.__cudagraphs", "torch._inductor.cudagraph_utils.__perf_hints")
_LOGS_SKIP = "log_cudagraph_skip_and_bump_counter"
"""``torch/_inductor/cudagraph_utils.py``: logs to the first of these loggers since 2.10, before that to the second, and
counts. Graphs without a CUDA device are only counted (``CompiledFxGraph.__init__``,
``torch/_inductor/output_code.py``, 2.13)."""

_PARTITION_LOGGER, _LOGS_LEFT_OUT = "torch._inductor.scheduler.__cudagraphs", "_log_non_cudagraphable_node"
_LOGS_PARTITIONS, _COUNTS = "_log_graph_partitions", 3
"""Its first record has three numbers: all partitions, those that can be CUDA graphs, and the others."""

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


def counted_skips() -> int:
    """Graphs that torch has skipped so far."""
    return counters().get("inductor", {}).get("cudagraph_skips", 0)


def on_skip(callback: Callable[[str], None]) -> Callable[[], None]:
    """Call a function with torch's reason for each graph that it skips from now on."""

    def listen(record: logging.LogRecord) -> bool:
        if record.funcName == _LOGS_SKIP:
            callback(record.getMessage())
        return True

    loggers = [logging.getLogger(name) for name in _SKIP_LOGGERS]
    for logger in loggers:
        logger.addFilter(listen)

    def stop() -> None:
        for logger in loggers:
            logger.removeFilter(listen)

    return stop


def on_left_out(callback: Callable[[str], None], on_partitions: Callable[[int, int], None]) -> Callable[[], None]:
    """Call a function with torch's reason for each operation that it leaves out of CUDA graphs from now on.

    Graph partition records what is before and after such an operation as CUDA graphs of their own, and only says so in
    its debug log (``Scheduler._log_non_cudagraphable_node``, ``torch/_inductor/scheduler.py``, 2.13): a line with the
    reason, then the lines of a stack. Nothing of it goes on to where the program's log goes.

    Args:
        callback: Gets the reason, or a line of the stack that belongs to the last one.
        on_partitions: Gets, before that, into how many partitions a graph was split, and how many of them can be CUDA
            graphs.
    """
    logger = logging.getLogger(_PARTITION_LOGGER)
    was_enabled, level = logger.isEnabledFor(logging.DEBUG), logger.level

    def listen(record: logging.LogRecord) -> bool:
        if record.funcName == _LOGS_LEFT_OUT and isinstance(record.args, tuple) and record.args:
            callback(str(record.args[-1]))
        if record.funcName == _LOGS_PARTITIONS and isinstance(record.args, tuple) and len(record.args) == _COUNTS:
            count, recordable, _ = record.args
            if isinstance(count, int) and isinstance(recordable, int):
                on_partitions(count, recordable)
        return was_enabled or record.levelno > logging.DEBUG

    logger.addFilter(listen)
    logger.setLevel(logging.DEBUG)

    def stop() -> None:
        logger.removeFilter(listen)
        logger.setLevel(level)

    return stop


def current_compile_id() -> str | None:
    """The compile that is under way, such as ``0/1``; None outside any, and if this torch doesn't tell."""
    try:
        found = torch._guards.CompileContext.current_compile_id()
    except AttributeError:
        return None
    return None if found is None else str(found)


@dataclass(frozen=True)
class StaticInput:
    """An input of a function that torch records."""

    placeholder: str
    shape: tuple[int, ...]
    bytes: int


@dataclass
class RecordedFunction:
    """A function that torch is to record as CUDA graphs: one graph, or a partition of one.

    Args:
        sizes: For how many different sizes of its inputs it was called.
        recorded_sizes: For how many of them it is recorded.
        rerecordings: Of these, those that were recorded although there was one for the same place and size.
        copied: Inputs that each replay copies to where the graph reads them.
        moved: Inputs whose new addresses made torch record it again.
        mutated: Placeholders of inputs that it writes to and that aren't static.
    """

    compile_id: str | None
    is_backward: bool
    name: str
    sizes: int = 0
    recorded_sizes: int = 0
    recordings: int = 0
    rerecordings: int = 0
    copied: list[StaticInput] = field(default_factory=list)
    moved: list[StaticInput] = field(default_factory=list)
    mutated: list[str] = field(default_factory=list)


def recorded_functions() -> list[RecordedFunction] | None:
    """The functions that torch is to record as CUDA graphs; it records one in its second call.

    ``CUDAGraphTreeManager`` (``torch/_inductor/cudagraph_trees.py``, 2.11 to 2.15) has a function for each graph, or
    partition of one, and each size of its inputs, and a tree of recordings.

    Returns:
        None if this torch keeps them elsewhere.
    """
    trees = sys.modules.get(_TREES)
    if trees is None:
        return []
    try:
        containers = trees.local.tree_manager_containers.values()
        managers = [container.tree_manager for container in containers if container.tree_manager is not None]
        return [function for manager in managers for function in _functions(manager)]
    except (AttributeError, KeyError, IndexError):
        return None


def launch_one_by_one() -> Undo:
    """Have what is recorded as CUDA graphs launch each kernel by itself, so that the profiler sees its operation.

    ``is_cudagraph_capture_sizes`` (``torch/_inductor/cudagraph_trees.py``, 2.11 to 2.15): torch uses CUDA graphs for
    the sizes that this setting names, or for all; an empty tuple names none.

    Raises:
        AttributeError: This torch has no such setting.
    """
    from torch._inductor import config

    settings: Any = config.triton
    before = settings.cudagraph_capture_sizes
    settings.cudagraph_capture_sizes = ()

    def undo() -> None:
        settings.cudagraph_capture_sizes = before

    return undo


def _functions(manager: Any) -> Iterable[RecordedFunction]:  # noqa: ANN401
    found: dict[int, RecordedFunction] = {}
    recordings = list(_recordings(manager.roots))
    for number, wrapped in manager.ids_to_funcs.items():
        compile_id = manager.id_to_compile_id[number]
        # One function is wrapped anew for each size.
        function = found.setdefault(
            id(wrapped.model),
            RecordedFunction(
                compile_id=None if compile_id is None else str(compile_id),
                is_backward=manager.id_to_mode[number].name == "BACKWARD",
                name=manager.get_func_name(number),
            ),
        )
        written = [index for index in wrapped.mutated_input_idxs if index not in wrapped.static_input_idxs]
        function.mutated = [wrapped.placeholders[index].name for index in written]
        own = [alike for of, alike in recordings if of == number]
        function.sizes += 1
        function.recorded_sizes += bool(own)
        for alike in own:
            function.recordings += len(alike)
            function.rerecordings += len(alike) - 1
            function.copied = [_input(alike[-1], index) for index in _copied(alike[-1])]
            for before, after in pairwise(alike):
                known = {each.placeholder for each in function.moved}
                moved = [_input(after, index) for index in _moved(before, after)]
                function.moved += [each for each in moved if each.placeholder not in known]
    return found.values()


def _recordings(nodes: Mapping[Any, list[Any]]) -> Iterator[tuple[Any, list[Any]]]:
    """Each function with its recordings at one place of a tree."""
    for number, alike in nodes.items():
        if alike:
            yield number, alike
        for recording in alike:
            yield from _recordings(recording.children)


def _copied(recording: Any) -> Iterator[int]:  # noqa: ANN401
    # torch 2.15 can also copy what another CUDA graph made.
    for index in getattr(recording, "input_copy_idxs", recording.non_static_input_idx):
        if isinstance(recording.reconstructed_inputs[index], torch.Tensor):
            yield index


def _moved(before: Any, after: Any) -> Iterator[int]:  # noqa: ANN401
    pairs = zip(before.static_input_data_ptrs, after.static_input_data_ptrs, strict=True)
    return (index for index, (one, other) in enumerate(pairs) if one != other)


def _input(recording: Any, index: int) -> StaticInput:  # noqa: ANN401
    tensor = recording.reconstructed_inputs[index]
    # What an expanded dim repeats is copied once.
    copied = prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    name = recording.wrapped_function.placeholders[index].name
    return StaticInput(name, tuple(tensor.shape), copied * tensor.element_size())
