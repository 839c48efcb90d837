"""Times Dynamo's searches for compiled code as they happen in a call: torch's own profiler range around each of them.

A search checks the guards of one cache entry after the other until all of one's hold. In a call, other work comes
between two searches, so caches are colder than for a check that is repeated (``guard_cost.py``). The profiler's own
time is taken off: an empty range beside each call is as long as the profiler makes every range.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..torch_private import torch_api
from ..torch_private.torch_profiler import ProfiledRange, profiled_ranges, quick_range
from ..wire import GuardCostEvent

_CALL_RANGE = "graphdoctor_searched_call"
_EMPTY_RANGE = "graphdoctor_empty"
_MAX_EVENTS = 50_000
"""The profiler's events of all calls together; one call can have any number."""

_FIRST_CALLS = 3
"""Calls under a new profiler that don't count: its buffers are new, and everything is cold."""

_MIN_CALLS, _MAX_CALLS = 5, 100
_BUDGET_S = 3.0


@dataclass(frozen=True)
class Search:
    """One search for compiled code.

    Args:
        compile_id: The compile whose code it found; None if it found none.
    """

    us: float
    compile_id: str | None


@dataclass(frozen=True)
class Searches:
    """The searches of several equal calls.

    Args:
        profiler_us: What was taken off each.
    """

    calls: tuple[tuple[Search, ...], ...]
    profiler_us: float

    def quartiles(self, compile_id: str | None = None) -> tuple[float, float, float] | None:
        """First quartile, median and third quartile of the time that a call takes for all searches.

        Args:
            compile_id: Of one search that found this compile's code, instead.

        Returns:
            Microseconds; None if there are none.
        """
        if compile_id is None:
            times = [sum(search.us for search in call) for call in self.calls]
        else:
            found = ([search.us for search in call if search.compile_id == compile_id] for call in self.calls)
            times = [sum(each) / len(each) for each in found if each]
        if len(times) < _MIN_CALLS:
            return None
        low, middle, high = statistics.quantiles(times, n=4)
        return low, middle, high

    def add_to(self, cost: GuardCostEvent) -> None:
        """Write the times into the event of what guard checks cost."""
        whole = self.quartiles()
        if whole is None:
            return
        cost["searches_low_us"], cost["searches_us"], cost["searches_high_us"] = whole
        cost["profiler_us"] = self.profiler_us
        for entry in cost["entries"]:
            one = self.quartiles(entry["compile_id"])
            if one is not None:
                entry["search_low_us"], entry["search_us"], entry["search_high_us"] = one


def time_searches(call: Callable[[], Any]) -> Searches | None:
    """Repeat a call under the profiler.

    Returns:
        Its searches; None if this torch doesn't tell the profiler's ranges.
    """
    started = time.perf_counter()
    first = _profiled(call, 1)
    if first is None:
        return None
    took_s, (_, count) = time.perf_counter() - started, first
    possible = min(_MAX_EVENTS // max(count, 1), int(_BUDGET_S / took_s), _MAX_CALLS)
    repetitions = max(possible, _MIN_CALLS)
    again = _profiled(call, _FIRST_CALLS + repetitions)
    return None if again is None else searches_in(again[0], skipped=_FIRST_CALLS)


def _profiled(call: Callable[[], Any], count: int) -> tuple[list[ProfiledRange], int] | None:
    """The ranges of calls that are of use here, and the number of all events."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(count):
            with quick_range(_EMPTY_RANGE):
                pass
            with torch.profiler.record_function(_CALL_RANGE):
                call()
    return profiled_ranges(profiler, (_CALL_RANGE, _EMPTY_RANGE, torch_api.CACHE_LOOKUP, torch_api.REGION_PREFIX))


def searches_in(ranges: Iterable[ProfiledRange], *, skipped: int = 0) -> Searches:
    """The searches in a profile."""
    ordered = sorted(ranges, key=lambda item: item.start_ns)
    calls = [item for item in ordered if item.name == _CALL_RANGE][skipped:]
    empty = [item.duration_ns for item in ordered if item.name == _EMPTY_RANGE][skipped:]
    profiler_us = statistics.median(empty) / 1e3 if empty else 0.0
    return Searches(tuple(tuple(_searches_of(call, ordered, profiler_us)) for call in calls), profiler_us)


def _searches_of(call: ProfiledRange, ordered: Sequence[ProfiledRange], profiler_us: float) -> Iterable[Search]:
    own = [
        item
        for item in ordered
        if item.thread == call.thread
        and call.start_ns <= item.start_ns < call.end_ns
        and item.name not in (_CALL_RANGE, _EMPTY_RANGE)
    ]
    for index, item in enumerate(own):
        if item.name == torch_api.CACHE_LOOKUP:
            # What a search found begins right after it.
            after = own[index + 1].name if index + 1 < len(own) else ""
            found = after.removeprefix(torch_api.REGION_PREFIX) if after.startswith(torch_api.REGION_PREFIX) else None
            yield Search(max(item.duration_ns / 1e3 - profiler_us, 0.0), found)
