"""What guard checks cost: of each compiled frame that the steady call runs, of parts of its tree, and in the call.

A guard check needs the frame's arguments as they are when the frame is entered, under the modes that hold there: the
function's own code may change both (``kwargs.pop``, ``torch.no_grad``). So the check is measured in place, when the
call enters Dynamo's code for the frame: a profile function sees that, before its first instruction, with the very
arguments that torch has just checked. While it measures, Dynamo is switched off, as it is during its own checks.

A part's cost is the time that a check saves without it: the tree is cloned with the part left out, and the clone and a
whole clone are timed in turns. The difference between two whole clones is the least that can be measured. A failing
check would look quick, so every tree must return True before it is timed.

A search checks the guards of one cache entry after the other until all of one's hold; torch's own profiler range is
around each. In a call, other work comes between two searches, so caches are colder than for a check that is repeated.
The profiler's own time is taken off: an empty range beside each call is as long as the profiler makes every range.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from ..torch_private import torch_api, torch_guards
from ..torch_private.torch_kernels import ProfiledRange, profiled_ranges, quick_range
from ..wire import BillRecord, GuardCostEvent, GuardCostRecord
from .timing import time_calls

_MAX_PARTS = 60
"""Parts of one tree that are measured on their own."""

_BILL_BUDGET_S = 15.0
"""Seconds for the parts of all trees together; what one tree leaves goes to the next."""

_CALL_BUDGET_S = 2.0
_MIN_CALLS, _MAX_CALLS = 5, 200
_ROUNDS = 31
_BATCH_NS = 100_000
"""The least that a round lasts, so that the clock's own cost doesn't show."""


class CompiledCode:
    """Knows which code Dynamo made of which."""

    def __init__(self) -> None:
        self._original: dict[CodeType, CodeType] = {}
        self.close = torch_guards.on_compiled_code(self._add)
        """Stops listening."""

    def _add(self, original: CodeType, made: CodeType) -> None:
        self._original[made] = original

    def original(self, code: CodeType) -> CodeType | None:
        """The code that Dynamo compiled to this one."""
        return self._original.get(code)


@dataclass(frozen=True)
class CallTime:
    """How long a call takes."""

    median_us: float
    low_us: float
    high_us: float
    count: int


def time_call(call: Callable[[], Any]) -> CallTime:
    """Time a call that compiles nothing."""
    times = time_calls(call, seconds=_CALL_BUDGET_S, most=_MAX_CALLS, least=_MIN_CALLS)
    low, middle, high = (1e6 * seconds for seconds in statistics.quantiles(times, n=4))
    return CallTime(middle, low, high, len(times))


class CheckTimer:
    """Times the guard checks of one call while it runs."""

    def __init__(self, compiled: CompiledCode) -> None:
        self._compiled = compiled
        self._runs: dict[CodeType, int] = {}
        self._measured: dict[CodeType, GuardCostRecord] = {}
        self._bill_left_s = _BILL_BUDGET_S
        self.troubles: list[str] = []

    def run(self, call: Callable[[], Any]) -> list[GuardCostRecord]:
        """Make the call and measure each compiled frame the first time it is entered."""
        before = sys.getprofile()
        # Dynamo is active while the call runs: without this it would compile our own functions.
        sys.setprofile(torch.compiler.disable(self._on_event))
        try:
            call()
        finally:
            sys.setprofile(before)
        for code, entry in self._measured.items():
            entry["runs"] = self._runs[code]
        return list(self._measured.values())

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        original = self._compiled.original(code)
        if original is None:
            return
        self._runs[code] = self._runs.get(code, 0) + 1
        if self._runs[code] > 1:
            return
        try:
            self._measure(original, code, frame.f_locals)
        except Exception as error:  # noqa: BLE001 - the program's call must go on; troubles become gaps
            self.troubles.append(f"{code.co_name}: {type(error).__name__}")

    def _measure(self, original: CodeType, code: CodeType, values: Mapping[str, Any]) -> None:
        found = torch_guards.cache_entry(original, code)
        if found is None:
            self.troubles.append(f"{original.co_name}: torch has dropped its cache entry")
            return
        compile_id, tree = found
        values = dict(values)
        entry = GuardCostRecord(compile_id=compile_id, runs=0)
        self._measured[code] = entry
        if not tree.check(values):
            self.troubles.append(f"{compile_id}: the check of its own arguments does not hold when it is repeated")
            return
        nothing = torch_guards.empty_guard_tree()
        net = [whole - empty for whole, empty in _timed_in_turns((tree, nothing), values)]
        low, middle, high = statistics.quantiles(net, n=4)
        start = time.perf_counter()
        bill, unbilled = _bill(tree, values, self._bill_left_s)
        self._bill_left_s -= time.perf_counter() - start
        if not tree.check(values):
            self.troubles.append(f"{compile_id}: the check no longer held after it was measured")
            return
        entry["check_us"] = max(middle, 0.0)
        entry["check_low_us"] = max(low, 0.0)
        entry["check_high_us"] = max(high, 0.0)
        entry["bill"] = bill
        entry["unbilled_count"] = unbilled


def _bill(tree: Any, values: Mapping[str, Any], budget_s: float) -> tuple[list[BillRecord], int]:  # noqa: ANN401
    """What each part of the tree costs, and how many parts were left unmeasured."""
    parts = torch_guards.guard_parts(tree)
    stop = time.perf_counter() + budget_s
    if budget_s <= 0 or (floor := _floor(tree, values)) is None:
        return [], len(parts)
    bill: list[BillRecord] = []
    for part, left_out in parts[:_MAX_PARTS]:
        if time.perf_counter() > stop:
            break
        saved = _savings(tree, _is_outside(left_out), values)
        if saved is None:
            continue
        low, middle, _high = statistics.quantiles(saved, n=4)
        bill.append(BillRecord(source=part, check_us=middle if low > floor else None))
    return bill, len(parts) - len(bill)


def _floor(tree: Any, values: Mapping[str, Any]) -> float | None:  # noqa: ANN401
    """The difference that leaving nothing out seems to make: clones differ by where in memory they lie."""
    saved = _savings(tree, lambda _: True, values)
    return None if saved is None else max(abs(middle) for middle in statistics.quantiles(saved, n=4))


def _savings(tree: Any, keeps: Callable[[str], bool], values: Mapping[str, Any]) -> list[float] | None:  # noqa: ANN401
    """Microseconds by which a check is quicker with what ``keeps`` leaves, round by round; None when it fails.

    Two pairs of clones, made in either order: the one made later lies elsewhere in memory.
    """
    whole = torch_guards.clone_guard_tree(tree, lambda _: True)
    rest = torch_guards.clone_guard_tree(tree, keeps)
    later_rest = torch_guards.clone_guard_tree(tree, keeps)
    later_whole = torch_guards.clone_guard_tree(tree, lambda _: True)
    if not all(clone.check(values) for clone in (whole, rest, later_rest, later_whole)):
        return None
    rounds = [*_timed_in_turns((whole, rest), values), *_timed_in_turns((later_whole, later_rest), values)]
    return [with_it - without for with_it, without in rounds]


def _is_outside(left_out: frozenset[str]) -> Callable[[str], bool]:
    return lambda source: source not in left_out


def _timed_in_turns(trees: tuple[Any, Any], values: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    first, second = trees
    count = max(1, _BATCH_NS // max(_batch_ns(first, values, 1), 1))
    for _ in range(_ROUNDS):
        one = _batch_ns(first, values, count) / count / 1e3
        other = _batch_ns(second, values, count) / count / 1e3
        yield one, other


def _batch_ns(tree: Any, values: Mapping[str, Any], count: int) -> int:  # noqa: ANN401
    check = tree.check
    start = time.perf_counter_ns()
    for _ in range(count):
        check(values)
    return time.perf_counter_ns() - start


_CALL_RANGE = "graphdoctor_searched_call"
_EMPTY_RANGE = "graphdoctor_empty"
_MAX_EVENTS = 50_000
"""The profiler's events of all calls together; one call can have any number."""

_FIRST_CALLS = 3
"""Calls under a new profiler that don't count: its buffers are new, and everything is cold."""

_MAX_SEARCHED_CALLS = 100
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
    possible = min(_MAX_EVENTS // max(count, 1), int(_BUDGET_S / took_s), _MAX_SEARCHED_CALLS)
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
