"""The private names of torch's profilers: quick ranges, quick access to events, and the older profiler.

Seen on 2.13.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, NamedTuple

import torch


class ProfiledRange(NamedTuple):
    """One event of a profiler.

    Args:
        name: Its name.
        thread: Where it ran.
        start_ns: When it began.
        duration_ns: How long it took.
    """

    name: str
    thread: int
    start_ns: int
    duration_ns: int

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.start_ns + self.duration_ns


def quick_range(name: str) -> AbstractContextManager[Any]:
    """A profiler range that costs about as little as torch's own, unlike ``record_function``.

    ``_RecordFunctionFast``: ``torch/csrc/autograd/init.cpp``, 2.13.
    """
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", torch.profiler.record_function)
    context: AbstractContextManager[Any] = fast(name)
    return context


def profiled_ranges(profiler: Any, prefixes: tuple[str, ...]) -> tuple[list[ProfiledRange], int] | None:  # noqa: ANN401
    """The events of a profiler that has ended whose names begin so, and how many events there are in all.

    ``profiler.events()`` builds a tree of them, which takes a hundred times as long; this reads what it is built from
    (``kineto_results``, ``torch/autograd/profiler.py``, 2.13).

    Returns:
        None if this torch keeps them elsewhere.
    """
    try:
        events = profiler.profiler.kineto_results.events()
        found = [
            ProfiledRange(event.name(), event.start_thread_id(), event.start_ns(), event.duration_ns())
            for event in events
            if event.name().startswith(prefixes)
        ]
    except AttributeError:
        return None
    return found, len(events)


class RangeProfiler:
    """Torch's older profiler, which notes the ranges of this thread, and of those that work for it, until its end.

    ``_enable_profiler_legacy``: ``torch/autograd/profiler_legacy.py``, 2.13. Kineto's, that of ``torch.profiler``,
    writes to standard error (``USDT: ... profiler_start``), and only one can be prepared in a process.

    Raises:
        AttributeError: This torch lacks it.
        RuntimeError: A profiler runs in this thread.
    """

    def __init__(self) -> None:
        profiler = import_module("torch.autograd")
        self._disable = profiler._disable_profiler_legacy
        state, experimental = profiler.ProfilerState.CPU, torch._C._profiler._ExperimentalConfig()
        options = (False,) * 5  # shapes, memory, stacks, FLOPs, modules
        profiler._enable_profiler_legacy(profiler.ProfilerConfig(state, *options, experimental))

    def end(self) -> Iterator[Iterator[str | None]]:
        """For each thread the name of each range where it begins, and None where the last one that began ends."""
        return (_ranges(events) for events in self._disable())


def _ranges(events: Iterable[Any]) -> Iterator[str | None]:
    for event in events:
        kind = event.kind()
        if kind == "push":
            yield event.name()
        elif kind == "pop":
            yield None
