"""What guard checks cost: of each compiled frame that the steady call runs, of parts of its tree,
and in the call.

A function's own code may change its arguments and modes (``kwargs.pop``, ``torch.no_grad``), so a
check is measured in place: a profile function sees the call enter Dynamo's code for the frame, with
the very arguments that torch has just checked. Meanwhile Dynamo is switched off, as it is during
its own checks.

A part's cost is the time that a check saves without it: a clone of the tree without the part and a
whole clone are timed in turns. The difference between two whole clones is the least that can be
measured. A failing check would look quick, so every tree must return True before it is timed.

A search checks the guards of one cache entry after the other until all of one's hold; torch's own
profiler range is around each. Other work comes between two searches, so caches are colder than for
a check that is repeated. The profiler's own time is taken off: an empty range beside each call is
as long as the profiler makes every range.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from time import perf_counter, perf_counter_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from ...facts.base import Fields
from ..torch_private import torch_guards
from ..torch_private.torch_api import CACHE_LOOKUP, REGION_PREFIX, region_of
from ..torch_private.torch_kernels import ProfiledEvent, profiled_events, quick_range

_MAX_PARTS = 60
"""Parts of one tree that are measured on their own."""

_BILL_BUDGET_S = 15.0
"""Seconds for the parts of all trees together; what one tree leaves goes to the next."""

_ROUNDS = 31
_BATCH_NS = 100_000
"""The least that a round lasts, so that the clock's own cost doesn't show."""

_Values = Mapping[str, Any]


class CompiledCode:
    """Which code Dynamo made of which, until it is closed."""

    def __init__(self) -> None:
        self.original: dict[CodeType, CodeType] = {}
        """The code that Dynamo compiled, by what it made of it."""
        self.close = torch_guards.on_compiled_code(
            lambda original, made: self.original.update({made: original})
        )


def spread(name: str, times_us: Iterable[float]) -> dict[str, float]:
    """Compute median and quartiles of times, as ``call_us``, ``call_low_us`` and
    ``call_high_us``.
    """
    low, middle, high = statistics.quantiles(times_us, n=4)
    return {f"{name}_us": middle, f"{name}_low_us": low, f"{name}_high_us": high}


class CheckTimer:
    """Times the guard checks of one call while it runs."""

    def __init__(self, compiled: CompiledCode) -> None:
        self._compiled = compiled
        self._measured: dict[CodeType, Fields] = {}
        self._runs: Counter[CodeType] = Counter()
        self._bill_left_s = _BILL_BUDGET_S
        self.troubles: list[str] = []

    def run(self, call: Callable[[], object]) -> list[Fields]:
        """Make the call and measure each compiled frame the first time it is entered.

        Returns:
            Compile id, runs, and costs where they could be measured; a part's is None for less than
            can be measured.
        """
        before = sys.getprofile()
        # Dynamo is active while the call runs: without this it would compile our own functions.
        sys.setprofile(torch.compiler.disable(self._on_event))
        try:
            call()
        finally:
            sys.setprofile(before)
        return [entry | {"runs": self._runs[code]} for code, entry in self._measured.items()]

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or (original := self._compiled.original.get(code)) is None:
            return
        self._runs[code] += 1
        if self._runs[code] == 1:
            try:
                self._measure(original, code, dict(frame.f_locals))
            except Exception as error:  # noqa: BLE001 - the program's call must go on; troubles become gaps
                self.troubles.append(f"{code.co_name}: {type(error).__name__}")

    def _measure(self, original: CodeType, code: CodeType, values: _Values) -> None:
        cached = torch_guards.cache_entry(original, code)
        if cached is None:
            self.troubles.append(f"{original.co_name}: torch has dropped its cache entry")
            return
        compile_id, tree = cached
        entry = self._measured[code] = {"compile_id": compile_id}
        if not tree.check(values):
            trouble = "the check of its own arguments does not hold when it is repeated"
            self.troubles.append(f"{compile_id}: {trouble}")
            return
        # A tree without guards takes what a check costs by itself.
        check = spread("check", _saved_us(tree, type(tree)(), values))
        started = perf_counter()
        bill = _bill(tree, values, self._bill_left_s)
        self._bill_left_s -= perf_counter() - started
        if not tree.check(values):
            self.troubles.append(f"{compile_id}: the check no longer held after it was measured")
            return
        entry |= {name: max(us, 0.0) for name, us in check.items()}
        entry["bill"] = bill


def _bill(tree: Any, values: _Values, budget_s: float) -> list[Fields]:
    """Return the cost of each part of the tree, as far as there is time."""
    stop = perf_counter() + budget_s
    # Leaving nothing out seems to make a difference too: clones differ by where in memory they lie.
    if budget_s <= 0 or (same := _savings(tree, (), values)) is None:
        return []
    floor = max(map(abs, same))
    bill = []
    for part, left_out in torch_guards.guard_parts(tree)[:_MAX_PARTS]:
        if perf_counter() > stop:
            break
        if (saved := _savings(tree, left_out, values)) is not None:
            low, middle, _high = saved
            bill.append({"source": part, "check_us": middle if low > floor else None})
    return bill


def _savings(tree: Any, left_out: Collection[str], values: _Values) -> list[float] | None:
    """Quartiles of the microseconds by which a check is quicker without some sources; None when it
    fails.

    Two pairs of clones, made in either order: the one made later lies elsewhere in memory.
    """
    whole, rest, later_rest, later_whole = clones = [
        tree.clone_manager(lambda manager, sources=sources: manager.get_source() not in sources)
        for sources in ((), left_out, left_out, ())
    ]
    if not all(clone.check(values) for clone in clones):
        return None
    first = _saved_us(whole, rest, values)
    later = _saved_us(later_whole, later_rest, values)
    return statistics.quantiles([*first, *later], n=4)


def _saved_us(tree: Any, other: Any, values: _Values) -> Iterator[float]:
    count = max(1, _BATCH_NS // max(_batch_ns(tree, values, 1), 1))
    for _ in range(_ROUNDS):
        yield (_batch_ns(tree, values, count) - _batch_ns(other, values, count)) / count / 1e3


def _batch_ns(tree: Any, values: _Values, count: int) -> int:
    check = tree.check
    start = perf_counter_ns()
    for _ in range(count):
        check(values)
    return perf_counter_ns() - start


# Searches.

_CALL_RANGE = "graphdoctor_searched_call"
_EMPTY_RANGE = "graphdoctor_empty"
_MAX_EVENTS = 50_000
"""The profiler's events of all calls together; one call can have any number."""

_FIRST_CALLS = 3
"""Calls under a new profiler that don't count: its buffers are new, and everything is cold."""

_MIN_CALLS = 5
_MAX_CALLS = 100
_BUDGET_S = 3.0


class Searches(NamedTuple):
    """The searches of several equal calls, and what was taken off each for the profiler.

    ``calls``: of each search the compile whose code it found, None if it found none, and
    microseconds.
    """

    calls: list[list[tuple[str | None, float]]]
    profiler_us: float

    def add_to(self, cost: Fields) -> None:
        """Add the times of all searches in a call, and of those that found each compile; none of
        too few calls.
        """
        if whole := _spread("searches", [[sum(us for _, us in call)] for call in self.calls]):
            cost |= whole
            for entry in cost["entries"]:
                compile_id = entry["compile_id"]
                times = [[us for of, us in call if of == compile_id] for call in self.calls]
                entry.update(_spread("search", times))


def _spread(name: str, calls: list[list[float]]) -> dict[str, float]:
    means = [statistics.fmean(times) for times in calls if times]
    return spread(name, means) if len(means) >= _MIN_CALLS else {}


def time_searches(call: Callable[[], object]) -> Searches:
    """Time the searches in repetitions of a call under the profiler."""
    started = perf_counter()
    first = _profiled(call, 1)
    in_time = int(_BUDGET_S / (perf_counter() - started))
    count = max(min(_MAX_EVENTS // len(first), in_time, _MAX_CALLS), _MIN_CALLS)
    return searches_in(_profiled(call, _FIRST_CALLS + count), skipped=_FIRST_CALLS)


def _profiled(call: Callable[[], object], count: int) -> list[ProfiledEvent]:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(count):
            with quick_range(_EMPTY_RANGE):
                pass
            with record_function(_CALL_RANGE):
                call()
    return profiled_events(profiler)


def searches_in(events: Iterable[ProfiledEvent], *, skipped: int = 0) -> Searches:
    """Find the searches in a profile."""
    ordered = sorted(events, key=lambda event: event.start_ns)
    calls = [event for event in ordered if event.name == _CALL_RANGE][skipped:]
    empty = [event.duration_ns for event in ordered if event.name == _EMPTY_RANGE][skipped:]
    profiler_us = statistics.median(empty) / 1e3 if empty else 0.0
    of_torch = [event for event in ordered if event.name.startswith((CACHE_LOOKUP, REGION_PREFIX))]
    searches = []
    for call in calls:
        inside = [
            event
            for event in of_torch
            if event.thread == call.thread and call.start_ns <= event.start_ns < call.end_ns
        ]
        # What a search found begins right after it.
        searches.append(
            [
                (
                    None if following is None else region_of(following.name),
                    max(event.duration_ns / 1e3 - profiler_us, 0.0),
                )
                for event, following in pairwise([*inside, None])
                if event is not None and event.name == CACHE_LOOKUP
            ]
        )
    return Searches(searches, profiler_us)
