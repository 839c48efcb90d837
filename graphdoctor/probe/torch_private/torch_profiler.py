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
    """One event of a profiler."""

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


class ProfiledEvent(NamedTuple):
    """One event of a profiler, on the host or on a device.

    Args:
        is_on_device: It is about a device: a kernel, a copy, or a range there.
        is_range: It is a range of the program's or torch's, no work.
        number: What later events name it by.
        launched_by: Number of the operation that launched it; 0 for none.
    """

    name: str
    thread: int
    start_ns: int
    duration_ns: int
    is_on_device: bool = False
    is_range: bool = False
    number: int = 0
    launched_by: int = 0

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.start_ns + self.duration_ns


def profile_activities() -> list[torch.profiler.ProfilerActivity]:
    """What to profile: the host, and CUDA where the program uses it."""
    activity = torch.profiler.ProfilerActivity
    return [activity.CPU, activity.CUDA] if torch.cuda.is_initialized() else [activity.CPU]


def profiled_events(profiler: Any) -> list[ProfiledEvent] | None:  # noqa: ANN401
    """The events of a profiler that has ended, but for those that begin in one thread and end in another.

    Returns:
        None if this torch keeps them elsewhere.
    """
    host = torch._C._autograd.DeviceType.CPU
    try:
        return [
            ProfiledEvent(
                event.name(),
                event.start_thread_id(),
                event.start_ns(),
                event.duration_ns(),
                event.device_type() != host,
                event.is_user_annotation(),
                event.correlation_id(),
                event.linked_correlation_id(),
            )
            for event in profiler.profiler.kineto_results.events()
            if not event.is_async() and event.start_thread_id() == event.end_thread_id()
        ]
    except AttributeError:
        return None


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
