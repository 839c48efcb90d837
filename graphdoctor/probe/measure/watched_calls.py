"""Watches calls that a script makes of its compiled functions, as they happen: no call is repeated.

Nobody knows which call is the last, so the first calls after each compile are watched, and then ever fewer. One of
them runs under a profiler, which gives its coverage, and then one whenever there have been twice as many calls; the
others are timed. A call that isn't watched runs no Python of ours: a C iterator counts it.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import length_hint
from types import FrameType
from typing import Any

import torch

from ...facts.watch import UnwatchedReason, WatchOutcome
from ..torch_private import torch_api
from ..torch_private.torch_calls import (
    CompiledCalls,
    Enter,
    GraphGlobals,
    is_any_profiler_on,
    is_inside_compile,
    replace_call_hook,
    watch_profilers,
)
from ..torch_private.torch_kernels import RangeProfiler
from ..wire import CalledArtifact, WatchedCallArtifact
from .coverage import CONVERSION_RANGE, RANGE_PREFIX, eager_operations

_FIRST_CALLS = 7
"""After each compile, as many calls one after the other; then each after a quarter more calls than there have been."""

_MAX_WATCHED = 32
_MAX_SHARE = 100
"""Of the calls of one function, at most this many or one in a hundred are watched, whichever is more."""

_FREE_S, _COST_SHARE = 1.0, 0.01
"""Calls are profiled as long as watching has taken less than this and than this share of the time since."""

_MAX_STRETCH = 100_000
_NEVER = 1 << 60
_MAX_NAMES = 20


@dataclass(frozen=True)
class CompiledAt:
    """What a program compiles, and where.

    Args:
        file: The file with the call to torch.compile; None if it wasn't such a call.
    """

    compiled: str
    file: str | None = None
    line: int | None = None


class _Watched:
    """One compiled function: counts its calls, and decides which of them are watched.

    Args:
        begin: Begins to watch a call, and returns what ends it; None if the call can't be watched.
        is_deferred: Its work happens after the call.
    """

    def __init__(
        self,
        number: int,
        place: CompiledAt,
        context: Any,  # noqa: ANN401
        begin: Callable[[_Watched], Callable[[], None] | None],
        *,
        is_deferred: bool,
    ) -> None:
        self.number = number
        self.place = place
        self.is_deferred = is_deferred
        self.unwatched: Counter[UnwatchedReason] = Counter()
        self.last_compile: int | None = None
        self.compiling_calls = 0
        """In how many calls in a row, up to the last of these, it compiled."""
        self.profiled_call: int | None = None
        """The last call whose coverage is known."""
        self.is_fullgraph = bool(getattr(context, "fullgraph", True))
        self._context = weakref.ref(context)
        self._begin = begin
        self._hook: Enter | None = None
        self.forget()

    @property
    def calls(self) -> int:
        """Calls that have begun."""
        return self._counted + sum(planned - length_hint(ends) for planned, ends in self._stretches)

    def forget(self) -> None:
        """Count from 0, and leave the first call unwatched: it compiles, if any does."""
        self._lock = threading.RLock()  # a forked process may have inherited one that nobody releases
        self._counted = self._tries = self._plans = self._armed_at = self._since_armed = self.compiling_calls = 0
        self._stretches: list[tuple[int, Iterator[Callable[[], object]]]] = []
        self.last_compile = self.profiled_call = None
        self.unwatched.clear()
        self._leave_unwatched(_NEVER if self.is_deferred else 1)

    def on_compile(self) -> None:
        """A call of it compiles: watch those that follow."""
        with self._lock:
            calls = self.calls
            if self.last_compile != calls:
                is_next = self.last_compile == calls - 1
                self.compiling_calls = self.compiling_calls + 1 if is_next else 1
            self.last_compile = self._armed_at = calls
            self._since_armed = 0
            if not self.is_deferred:
                self._leave_unwatched(self._until_allowed())

    def _watch(self) -> Callable[[], object]:
        """The hook of a call that is to be watched; returns what its end calls."""
        with self._lock:
            self._counted += 1
            if self._hook != self._watch:  # another thread's call came first
                return bool
            self._tries += 1
            self._since_armed += 1
            stretch = 0 if self._since_armed < _FIRST_CALLS else (self.calls - self._armed_at) // 4
            self._leave_unwatched(max(stretch, self._until_allowed()))
        with contextlib.suppress(Exception):  # the call must go on
            return self._begin(self) or bool
        return bool

    def _until_allowed(self) -> int:
        """How many calls have to come before another may be watched."""
        return 0 if self._tries < _MAX_WATCHED else max(0, (self._tries + 1) * _MAX_SHARE - self.calls)

    def _leave_unwatched(self, count: int) -> None:
        """Watch a call again after so many.

        Every call takes the next item of an iterator and calls it when it ends: ``bool``, which does nothing, in C, or
        ``_arm`` from the last one. A single C iterator, since two threads can be in it.
        """
        self._plans += 1
        if not count:
            self._replace_hook(self._watch)
            return
        if count == _NEVER:
            ends: Iterator[Callable[[], object]] = repeat(bool, count)
        else:
            count = min(count, _MAX_STRETCH)
            ends = iter([*[bool] * (count - 1), partial(self._arm, self._plans)])
        while len(self._stretches) > 1:  # in the latest, a call of another thread can be about to begin
            planned, old = self._stretches.pop(0)
            self._counted += planned - length_hint(old)
        self._stretches.append((count, ends))
        self._replace_hook(partial(next, ends, self._count_late))

    def _arm(self, plan: int) -> None:
        with self._lock:
            if plan == self._plans:
                self._replace_hook(self._watch)

    def _count_late(self) -> None:
        """A call came after the last of a stretch had begun, and before it ended."""
        with self._lock:
            self._counted += 1

    def _replace_hook(self, hook: Enter) -> None:
        context = self._context()
        if context is not None:
            before, self._hook = self._hook, hook
            replace_call_hook(context, before, hook)


class DeviceClock:
    """Times work on the current CUDA stream by the device's own clock, so that nobody has to wait for it.

    Two events with nothing between them come first: what they are apart is taken off.
    """

    def __init__(self) -> None:
        self._events = [_recorded_event(), _recorded_event()]

    def stop(self) -> None:
        """Everything to be timed has been launched."""
        self._events.append(_recorded_event())

    def elapsed_us(self, *, has_to_wait: bool) -> float | None:
        """Microseconds that the work took; None while it isn't done."""
        before, start, end = self._events
        if has_to_wait:
            end.synchronize()
        elif not end.query():
            return None
        return float(start.elapsed_time(end) - before.elapsed_time(start)) * 1e3


@dataclass
class _Call:
    function: _Watched
    number: int
    frame: FrameType | None
    error: BaseException | None
    activity: int
    began: float
    thread: int = field(default_factory=threading.get_ident)
    outcome: WatchOutcome = "steady"
    profiler: RangeProfiler | None = None
    runs: list[int] = field(default_factory=list)
    marks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    clock: DeviceClock | None = None
    started: float = 0.0


class CallWatcher:
    """Watches the calls of one process."""

    def __init__(
        self, write_call: Callable[[WatchedCallArtifact], None], write_counts: Callable[[CalledArtifact], None]
    ) -> None:
        self._write_call = write_call
        self._write_counts = write_counts
        self._compiled_calls = CompiledCalls()
        self._functions: list[_Watched] = []
        self._by_context: weakref.WeakKeyDictionary[Any, _Watched] = weakref.WeakKeyDictionary()
        self._graphs: GraphGlobals | None = None
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._call: _Call | None = None
        self._activity = 0
        self._cost_s = 0.0
        self._first: float | None = None
        self._waiting: list[tuple[WatchedCallArtifact, DeviceClock | None]] = []

    def install_calls(self, describe: Callable[[Any], CompiledAt]) -> None:
        """Watch what torch.compile makes from now on.

        Args:
            describe: Returns what is being compiled; called inside torch.compile.
        """

        def add(context: Any, function: Any) -> None:  # noqa: ANN401
            if context in self._by_context:
                return
            number = len(self._functions)
            watched = _Watched(number, describe(function), context, self._begin, is_deferred=_is_deferred(function))
            self._functions.append(watched)
            self._by_context[context] = watched

        self._compiled_calls.install(add)
        watch_profilers(self._give_way)

    def install_graphs(self) -> None:
        """Know the graphs that are compiled from now on."""
        self._graphs = GraphGlobals()
        self._graphs.install()

    def add_graph(self, index: int, tensor_ops: int) -> None:
        """A backend has compiled a graph."""
        if self._graphs is not None:
            self._graphs.add(index, tensor_ops)

    def on_compile(self) -> None:
        """A compile begins in this thread, or a function hits its recompile limit."""
        self._activity += 1
        call = self._call
        if call is not None and call.thread == threading.get_ident():
            self._end_profiler(call)  # what it would see of the compile is much, and of no use
        *_, outermost = (None, *self._compiled_calls.frames())
        if outermost is not None:
            watched = self._by_context.get(outermost.f_locals.get("self"))
            if watched is not None:
                watched.on_compile()

    def begin_in_fork(self) -> None:
        """Count anew in a forked process."""
        self._reset()
        for watched in self._functions:
            watched.forget()

    def end(self) -> None:
        """Write what is only known at the end."""
        if (call := self._call) is not None:
            self._end_profiler(call)
        with contextlib.suppress(RuntimeError):  # a device that was lost
            self._write_waiting(is_end=True)
        for watched in self._functions:
            if watched.calls:
                self._write_called(watched, is_end=True)

    # One call.

    def _begin(self, watched: _Watched) -> Callable[[], None] | None:
        began = time.perf_counter()
        self._first = self._first or began
        frames = list(self._compiled_calls.frames())
        reason = self._reason_not_to(frames)
        if reason is None and not self._lock.acquire(blocking=False):
            reason = "busy"
        if reason is not None:
            watched.unwatched[reason] += 1
            return None
        self._write_waiting()
        call = _Call(watched, watched.calls, frames[0], sys.exc_info()[1], self._activity, began)
        try:
            if self._graphs is not None and self._is_profile_due(watched):
                self._begin_profiler(call, self._graphs)
            if torch.cuda.is_initialized():
                call.clock = DeviceClock()
        except BaseException:
            self._end_profiler(call)
            self._lock.release()
            raise
        self._call = call
        call.started = time.perf_counter()
        return lambda: self._end(call)

    def _reason_not_to(self, frames: list[FrameType]) -> UnwatchedReason | None:
        if len(frames) > 1 or is_inside_compile():
            return "nested"
        if sys.getprofile() is not None or sys.gettrace() is not None:
            return "profiler"
        if is_any_profiler_on() or torch_api.is_profiling():
            return "profiler"
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return "capture"
        # torch forgets to end a call whose check for ``fullgraph`` raises after it.
        if (left := self._call) is not None and left.thread == threading.get_ident() and left.frame not in frames:
            self._leave(left)
        return None

    def _is_profile_due(self, watched: _Watched) -> bool:
        if watched.last_compile is None and watched.is_fullgraph:
            return False  # torch may raise after the call, and forget to end it
        last = watched.profiled_call
        if last is not None and watched.calls < 2 * last and last > (watched.last_compile or 0):
            return False
        return self._cost_s < _FREE_S + _COST_SHARE * (time.perf_counter() - (self._first or 0.0))

    def _begin_profiler(self, call: _Call, graphs: GraphGlobals) -> None:
        if torch_api.has_conversions():
            call.marks.enter_context(torch_api.marked_conversions(CONVERSION_RANGE))
        call.runs = call.marks.enter_context(graphs.marked(RANGE_PREFIX))
        call.profiler = RangeProfiler()

    def _end_profiler(self, call: _Call) -> Iterator[Iterator[str | None]] | None:
        """End ours, if it runs; returns what it saw."""
        profiler, call.profiler = call.profiler, None
        ranges = None if profiler is None else profiler.end()
        call.marks.close()
        return ranges

    def _give_way(self) -> None:
        """The program begins to profile; only one profiler can run."""
        call = self._call
        if call is not None and call.thread == threading.get_ident():
            call.outcome = "profiled"
            with contextlib.suppress(Exception):
                self._end_profiler(call)

    def _leave(self, call: _Call) -> None:
        try:
            self._end_profiler(call)
        finally:
            # What ended the call can live until the next watched one; the program's values must not.
            call.frame = call.error = None
            self._call = None
            self._lock.release()

    def _end(self, call: _Call) -> None:
        ended = time.perf_counter()
        with contextlib.suppress(Exception):  # the program must go on
            if call is self._call:
                self._finish(call, ended)

    def _finish(self, call: _Call, ended: float) -> None:
        try:
            if call.clock is not None:
                call.clock.stop()
            ranges = self._end_profiler(call)
            if sys.exc_info()[1] is not call.error:
                call.outcome = "raised"
            elif self._activity != call.activity:
                call.outcome = "compiled"
            artifact = WatchedCallArtifact(
                function=call.function.number,
                call=call.number,
                outcome=call.outcome,
                duration_us=(ended - call.started) * 1e6,
                is_profiled=ranges is not None,
                cost_us=0.0,
            )
            if ranges is not None and call.outcome == "steady":
                self._add_coverage(artifact, call, ranges)
            if ranges is not None:
                self._write_called(call.function, is_end=False)
            cost_s = time.perf_counter() - ended + call.started - call.began
            artifact["cost_us"] = cost_s * 1e6
            self._cost_s += cost_s
            self._waiting.append((artifact, call.clock))
            self._write_waiting()
        finally:
            self._leave(call)

    @staticmethod
    def _add_coverage(artifact: WatchedCallArtifact, call: _Call, ranges: Iterator[Iterator[str | None]]) -> None:
        eager = Counter(name for thread in ranges for name in eager_operations(thread))
        artifact["graph_runs"] = len(call.runs)
        artifact["graph_ops"] = sum(call.runs)
        artifact["eager_ops"] = eager.total()
        artifact["eager_op_names"] = dict(eager.most_common(_MAX_NAMES))
        call.function.profiled_call = call.number

    def _write_waiting(self, *, is_end: bool = False) -> None:
        """Write the calls whose work on the device is done, or at the end all."""
        while self._waiting:
            artifact, clock = self._waiting[0]
            if clock is not None:
                elapsed_us = clock.elapsed_us(has_to_wait=is_end)
                if elapsed_us is None:
                    return
                artifact["duration_us"] = max(artifact["duration_us"], elapsed_us)
            self._write_call(self._waiting.pop(0)[0])

    def _write_called(self, watched: _Watched, *, is_end: bool) -> None:
        self._write_counts(
            CalledArtifact(
                function=watched.number,
                compiled=watched.place.compiled,
                file=watched.place.file,
                line=watched.place.line,
                calls=watched.calls,
                last_compile=watched.last_compile,
                compiling_calls=watched.compiling_calls,
                unwatched={**watched.unwatched},
                is_deferred=watched.is_deferred,
                is_end=is_end,
            )
        )


def _recorded_event() -> Any:  # noqa: ANN401
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _is_deferred(function: Any) -> bool:  # noqa: ANN401
    called = function.forward if isinstance(function, torch.nn.Module) else function
    return any(
        test(called) for test in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    )
