"""Watches calls that a script makes of its compiled functions, as they happen: no call is repeated.

The first calls after each compile are watched, and then ever fewer. One of them runs under a
profiler, which gives its coverage, and then one whenever there have been twice as many; the others
are timed. A call that isn't watched runs no Python of ours: a C iterator counts it.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import length_hint
from time import perf_counter
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

from ...facts.base import Fields
from ...facts.counts import UnwatchedReason, WatchOutcome
from ..torch_private import torch_api
from ..torch_private.torch_hooks import (
    CompiledCalls,
    Enter,
    GraphGlobals,
    LatestGraph,
    WatchedRun,
    is_any_profiler_on,
    is_inside_compile,
    replace_call_hook,
    watch_profilers,
    watch_stances,
)
from ..torch_private.torch_kernels import RangeProfiler
from .coverage import CONVERSION_RANGE, MAX_NAMES, TEXT_RANGE, outer_operations
from .eager_calls import EagerCalls

_FIRST_CALLS = 7
"""After each compile, as many calls one after the other; then each after a quarter more calls than
there have been."""

_MAX_WATCHED = 32
_MAX_SHARE = 100
"""Of the calls of one function, at most this many or one in a hundred are watched, whichever is
more."""

_FREE_S = 1.0
_COST_SHARE = 0.01
"""Calls are profiled as long as watching has taken less than this and than this share of the time
since."""

_MAX_STRETCH = 100_000
_NEVER = 1 << 60

CompiledAt = tuple[str, str | None, int | None]
"""What a program compiles, and file and line of its call of torch.compile; None if it wasn't such a
call."""

_End = Callable[[], object]


class _Watched:
    """Counts a compiled function's calls, and decides which are watched; ``begin`` returns what
    ends one, or None.
    """

    def __init__(
        self,
        number: int,
        described: CompiledAt,
        context: Any,
        begin: Callable[[_Watched], _End | None],
        *,
        is_deferred: bool,
    ) -> None:
        self.number = number
        self.profiled_call: int | None = None
        """The last call whose coverage is known."""
        self.last_compile: int | None = None
        """The last call in which torch began to compile."""
        self.is_fullgraph = bool(getattr(context, "fullgraph", True))
        self._described = described
        self._is_deferred = is_deferred
        self._context = ref(context)
        self._begin = begin
        self._hook: Enter | None = None
        self.forget()

    @property
    def calls(self) -> int:
        return self._counted + sum(planned - length_hint(ends) for planned, ends in self._stretches)

    def counted(self, *, is_end: bool) -> Fields:
        """Return fields of ``WatchedFunction``; ``is_deferred``: its work is done after the call;
        ``is_end``: counts are final.
        """
        compiled, file, line = self._described
        return {
            "function": self.number,
            "compiled": compiled,
            "file": file,
            "line": line,
            "calls": self.calls,
            "last_compile": self.last_compile,
            "compiling_calls": self._compiling_calls,
            "unwatched": self._unwatched,
            "is_deferred": self._is_deferred,
            "is_end": is_end,
        }

    def forget(self) -> None:
        """Count from 0, and leave the first call unwatched: it compiles, if any does."""
        # A forked process may have inherited one that nobody releases.
        self._lock = threading.RLock()
        self._counted = self._tries = self._plans = self._armed_at = self._since_armed = 0
        self._stretches: list[tuple[int, Iterator[_End]]] = []
        self.last_compile = self.profiled_call = None
        self._compiling_calls = 0
        """In how many calls in a row, up to the last such one, torch began to compile."""
        self._unwatched: Counter[UnwatchedReason] = Counter()
        """Calls that weren't watched when they were due."""
        self._leave_unwatched(_NEVER if self._is_deferred else 1)

    def on_compile(self) -> None:
        with self._lock:
            calls = self.calls
            last = self.last_compile
            if last != calls:
                self._compiling_calls = self._compiling_calls + 1 if last == calls - 1 else 1
            self.last_compile = self._armed_at = calls
            self._since_armed = 0
            if not self._is_deferred:
                self._leave_unwatched(self._until_allowed())

    def refuse(self, reason: UnwatchedReason) -> None:
        self._unwatched[reason] += 1

    def _watch(self) -> _End:
        with self._lock:
            self._counted += 1
            if self._hook != self._watch:  # another thread's call came first
                return bool
            self._tries += 1
            self._since_armed += 1
            stretch = 0 if self._since_armed < _FIRST_CALLS else (self.calls - self._armed_at) // 4
            self._leave_unwatched(max(stretch, self._until_allowed()))
        with suppress(Exception):  # the call must go on
            return self._begin(self) or bool
        return bool

    def _until_allowed(self) -> int:
        if self._tries < _MAX_WATCHED:
            return 0
        return max(0, (self._tries + 1) * _MAX_SHARE - self.calls)

    def _leave_unwatched(self, count: int) -> None:
        """Watch a call again after so many.

        Every call takes the next item of an iterator and calls it when it ends: ``bool``, in C, or
        ``_arm`` from the last one. A single C iterator, since two threads can be in it.
        """
        self._plans += 1
        if not count:
            self._replace_hook(self._watch)
            return
        if count == _NEVER:
            ends: Iterator[_End] = repeat(bool, count)
        else:
            count = min(count, _MAX_STRETCH)
            ends = iter([*[bool] * (count - 1), partial(self._arm, self._plans)])
        # In the latest, a call of another thread can be about to begin.
        while len(self._stretches) > 1:
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
        if (context := self._context()) is not None:
            before = self._hook
            self._hook = hook
            replace_call_hook(context, before, hook)


class DeviceClock:
    """Times work on the current CUDA stream by the device's clock; what two events are apart at
    once is taken off.
    """

    def __init__(self) -> None:
        self._events: list[Any] = []
        self.record()
        self.record()

    def record(self) -> None:
        """Mark that everything to be timed has been launched."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._events.append(event)

    def elapsed_us(self, *, has_to_wait: bool) -> float | None:
        """Return microseconds that the work took; None while it isn't done."""
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
    runs: list[WatchedRun] = field(default_factory=list)
    marks: ExitStack = field(default_factory=ExitStack)
    clock: DeviceClock | None = None
    started: float = 0.0

    def end_profiler(self) -> Iterator[Iterator[str | None]] | None:
        """End ours, if it runs; returns what it saw."""
        profiler = self.profiler
        self.profiler = None
        ranges = None if profiler is None else profiler.end()
        self.marks.close()
        return ranges


class CallWatcher:
    """Watches the calls of one process."""

    def __init__(self, write: Callable[[str, object], None]) -> None:
        self._write_artifact = write
        self._compiled_calls = CompiledCalls()
        self._functions: list[_Watched] = []
        self._by_context: WeakKeyDictionary[Any, _Watched] = WeakKeyDictionary()
        self._graphs: GraphGlobals | None = None
        self.eager_calls = EagerCalls(self._place)
        self._knows_stances = False
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._call: _Call | None = None
        self._activity = 0
        self._cost_s = 0.0
        self._first: float | None = None
        self._calls_before: dict[int, int] = {}
        """Calls of each function before the stance was set."""
        self._waiting: list[tuple[Fields, DeviceClock | None]] = []

    def install_calls(self, describe: Callable[[Any], CompiledAt]) -> None:
        """Watch what torch.compile makes from now on; ``describe`` is called inside
        torch.compile.
        """

        def add(context: Any, function: Any) -> None:
            if context not in self._by_context:
                number = len(self._functions)
                place = describe(function)
                called = function.forward if isinstance(function, torch.nn.Module) else function
                is_deferred = any(
                    is_kind(called)
                    for is_kind in (
                        inspect.isgeneratorfunction,
                        inspect.iscoroutinefunction,
                        inspect.isasyncgenfunction,
                    )
                )
                watched = _Watched(number, place, context, self._begin, is_deferred=is_deferred)
                self._by_context[context] = watched
                self._functions.append(watched)

        self._compiled_calls.install(add)
        watch_profilers(self._give_way)

    def install_graphs(self, latest: LatestGraph) -> None:
        """Find the graphs that are compiled from now on, as ``GraphGlobals`` does."""
        self._graphs = GraphGlobals(latest)

    def install_stances(self) -> None:
        """Count the calls that a stance runs eagerly."""
        watch_stances(self._on_stance)
        self._knows_stances = True

    def _on_stance(self, before: str, coming: str) -> None:
        for watched in self._functions:
            number = watched.number
            calls = watched.calls
            earlier = self._calls_before.get(number, 0)
            if before == "force_eager":
                self.eager_calls.add(number, "force_eager", calls - earlier)
            elif before == "eager_then_compile" and not earlier and watched.last_compile != 1:
                self.eager_calls.add(number, "eager_then_compile", min(calls, 1))
            self._calls_before[number] = calls
        self.eager_calls.look_on(is_needed=coming == "eager_on_recompile")

    def _place(self) -> tuple[int, int] | None:
        """Return the outermost compiled call that this thread is in."""
        *_, outermost = (None, *self._compiled_calls.frames())
        context = None if outermost is None else outermost.f_locals.get("self")
        watched = None if context is None else self._by_context.get(context)
        return None if watched is None else (watched.number, watched.calls)

    def on_limit(self) -> None:
        """A function hits its recompile limit."""
        self.on_compile()
        self.eager_calls.on_limit()

    def on_compile(self) -> None:
        """A compile begins in this thread, or a function hits its recompile limit."""
        self._activity += 1
        if (call := self._call_here()) is not None:
            call.end_profiler()  # what it would see of the compile is much, and of no use
        if (place := self._place()) is not None:
            self._functions[place[0]].on_compile()

    def begin_in_fork(self) -> None:
        """Count anew in a forked process."""
        self._reset()
        self.eager_calls.forget()
        for watched in self._functions:
            watched.forget()

    def end(self) -> None:
        """Write what only shows at the end."""
        if self._call is not None:
            self._call.end_profiler()
        with suppress(RuntimeError):  # a device that was lost
            self._write_waiting(is_end=True)
        self._on_stance(torch_api.stance(), "default")
        self.eager_calls.close()
        for watched in self._functions:
            if watched.calls:
                counted = watched.counted(is_end=True)
                if self._knows_stances:
                    counted["eager_calls"] = self.eager_calls.counts[watched.number]
                self._write_artifact("graphdoctor_called", counted)

    # One call.

    def _call_here(self) -> _Call | None:
        call = self._call
        return call if call is not None and call.thread == threading.get_ident() else None

    def _begin(self, watched: _Watched) -> _End | None:
        began = perf_counter()
        self._first = self._first or began
        frames = list(self._compiled_calls.frames())
        reason = self._reason_not_to(frames)
        if reason is None and not self._lock.acquire(blocking=False):
            reason = "busy"
        if reason is not None:
            watched.refuse(reason)
            return None
        self._write_waiting()
        call = _Call(watched, watched.calls, frames[0], sys.exc_info()[1], self._activity, began)
        try:
            if self._graphs is not None and self._is_profile_due(watched):
                if torch_api.has_conversions():
                    call.marks.enter_context(torch_api.marked_conversions(CONVERSION_RANGE))
                call.marks.enter_context(torch_api.marked_texts(TEXT_RANGE))
                call.runs = call.marks.enter_context(self._graphs.watched())
                call.profiler = RangeProfiler()
            if torch.cuda.is_initialized():
                call.clock = DeviceClock()
        except BaseException:
            call.end_profiler()
            self._lock.release()
            raise
        self._call = call
        call.started = perf_counter()
        return partial(self._end, call)

    def _reason_not_to(self, frames: list[FrameType]) -> UnwatchedReason | None:
        if len(frames) > 1 or is_inside_compile():
            return "nested"
        if sys.getprofile() or sys.gettrace() or is_any_profiler_on() or torch_api.is_profiling():
            return "profiler"
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return "capture"
        # torch forgets to end a call whose check for ``fullgraph`` raises after it.
        if (left := self._call_here()) is not None and left.frame not in frames:
            self._leave(left)
        return None

    def _is_profile_due(self, watched: _Watched) -> bool:
        last = watched.profiled_call
        last_compile = watched.last_compile
        if last_compile is None and watched.is_fullgraph:
            return False  # torch may raise after the call, and forget to end it
        if last is not None and watched.calls < 2 * last and last > (last_compile or 0):
            return False
        return self._cost_s < _FREE_S + _COST_SHARE * (perf_counter() - (self._first or 0.0))

    def _give_way(self) -> None:
        """The program begins to profile; only one profiler can run."""
        if (call := self._call_here()) is not None:
            call.outcome = "profiled"
            with suppress(Exception):
                call.end_profiler()

    def _leave(self, call: _Call) -> None:
        try:
            call.end_profiler()
        finally:
            # What ended the call can live until the next watched one; the program's values must
            # not.
            call.frame = call.error = None
            self._call = None
            self._lock.release()

    def _end(self, call: _Call) -> None:
        ended = perf_counter()
        with suppress(Exception):  # the program must go on
            if call is self._call:
                try:
                    self._finish(call, ended)
                finally:
                    self._leave(call)

    def _finish(self, call: _Call, ended: float) -> None:
        if call.clock is not None:
            call.clock.record()
        ranges = call.end_profiler()
        if sys.exc_info()[1] is not call.error:
            call.outcome = "raised"
        elif self._activity != call.activity:
            call.outcome = "compiled"
        artifact: Fields = {
            "function": call.function.number,
            "call": call.number,
            "outcome": call.outcome,
            "duration_us": (ended - call.started) * 1e6,
            "is_profiled": ranges is not None,
        }
        if ranges is not None:
            if call.outcome == "steady":
                operations = [pair for thread in ranges for pair in outer_operations(thread)]
                eager = Counter(name for name, is_eager in operations if is_eager)
                runs = [count for _, count, _, _, thread in call.runs if thread == call.thread]
                artifact["graph_runs"], artifact["graph_ops"] = len(runs), sum(runs)
                artifact["eager_ops"] = eager.total()
                artifact["text_ops"] = len(operations) - eager.total()
                artifact["eager_op_names"] = dict(eager.most_common(MAX_NAMES))
                call.function.profiled_call = call.number
            self._write_artifact("graphdoctor_called", call.function.counted(is_end=False))
        cost_s = perf_counter() - ended + call.started - call.began
        artifact["cost_us"] = cost_s * 1e6
        self._cost_s += cost_s
        self._waiting.append((artifact, call.clock))
        self._write_waiting()

    def _write_waiting(self, *, is_end: bool = False) -> None:
        """Write the calls whose work on the device is done, or at the end all."""
        while self._waiting:
            artifact, clock = self._waiting[0]
            if clock is not None:
                elapsed_us = clock.elapsed_us(has_to_wait=is_end)
                if elapsed_us is None:
                    return
                artifact["duration_us"] = max(artifact["duration_us"], elapsed_us)
            self._write_artifact("graphdoctor_watched_call", self._waiting.pop(0)[0])
