"""The private names of torch's profiler: quick ranges, and events without the tree that ``events()`` builds of them.

Seen on 2.13.0.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
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
