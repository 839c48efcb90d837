"""The private names of torch's CUDA graphs: whether they are asked for, why some are skipped, which were recorded.

Seen on 2.13.0.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .torch_api import counters

_SKIP_LOGGERS = ("torch._inductor.cudagraph_utils.__cudagraphs", "torch._inductor.cudagraph_utils.__perf_hints")
_LOGS_SKIP = "log_cudagraph_skip_and_bump_counter"
"""``torch/_inductor/cudagraph_utils.py``: logs to the first of these loggers since 2.10, before that to the second, and
counts. Graphs without a CUDA device are only counted (``CompiledFxGraph.__init__``,
``torch/_inductor/output_code.py``, 2.13)."""

_PARTITION_LOGGER, _LOGS_LEFT_OUT = "torch._inductor.scheduler.__cudagraphs", "_log_non_cudagraphable_node"

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
    """Call a function with torch's reason for each graph that it skips from now on.

    Args:
        callback: Gets the reason.

    Returns:
        Ends that.
    """

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


def on_left_out(callback: Callable[[str], None]) -> Callable[[], None]:
    """Call a function with torch's reason for each operation that it leaves out of CUDA graphs from now on.

    Graph partition records what is before and after such an operation as CUDA graphs of their own, and only says so in
    its debug log (``Scheduler._log_non_cudagraphable_node``, ``torch/_inductor/scheduler.py``, 2.13): a line with the
    reason, then the lines of a stack. Nothing of it goes on to where the program's log goes.

    Args:
        callback: Gets the reason, or a line of the stack that belongs to the last one.

    Returns:
        Ends that.
    """
    logger = logging.getLogger(_PARTITION_LOGGER)
    was_enabled, level = logger.isEnabledFor(logging.DEBUG), logger.level

    def listen(record: logging.LogRecord) -> bool:
        if record.funcName == _LOGS_LEFT_OUT and isinstance(record.args, tuple) and record.args:
            callback(str(record.args[-1]))
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


def recorded_functions() -> tuple[int, int] | None:
    """How many functions torch has recorded as CUDA graphs, and how many it is to record.

    ``CUDAGraphTreeManager`` (``torch/_inductor/cudagraph_trees.py``, 2.13) has a function for each graph, and a tree of
    recordings; a function is recorded in its second call.

    Returns:
        None if this torch keeps them elsewhere.
    """
    trees = sys.modules.get(_TREES)
    if trees is None:
        return 0, 0
    try:
        managers = [
            container.tree_manager
            for container in trees.local.tree_manager_containers.values()
            if container.tree_manager is not None
        ]
        recorded = sum(len(set(_functions(manager.roots))) for manager in managers)
        return recorded, sum(len(manager.ids_to_funcs) for manager in managers)
    except AttributeError:
        return None


def _functions(nodes: Mapping[Any, list[Any]]) -> Iterator[Any]:
    for function, recordings in nodes.items():
        if recordings:
            yield function
        for recording in recordings:
            yield from _functions(recording.children)
