"""``graphdoctor.watch``: says what torch.compile does in a program that runs on, at no cost per
call.
"""

from __future__ import annotations

import atexit
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from graphdoctor.api.watching.outbox import Outbox
from graphdoctor.api.watching.sinks import Sink, SpanSink, open_sink
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import Fields
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.watch import WatchEvent, WatchKind
from graphdoctor.trace.causes import cause_of_record
from graphdoctor.views.watch import change_text, event_line, summary_line

if TYPE_CHECKING:
    from graphdoctor.facts.counts import Coverage
    from graphdoctor.probe.torch_private.torch_watch import Begun

OnRecompile = Literal["warn", "raise", "eager"]

_MOST_EVENTS = 10_000
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*s")


class RecompileError(GraphDoctorError):
    """A function would have been compiled again after the watch was locked."""


class _UnderWay(threading.local):
    """State of the compile that is under way in a thread."""

    causes: tuple[str, ...] = ()
    is_locked = False
    is_blocked = False


class Watch:
    """Sees what torch.compile does from when it is made until ``close``; ``graphdoctor.watch``
    makes it.

    ``step`` is the program's own, for the events to name; None until it is set. ``events`` has the
    latest 10,000.
    """

    def __init__(
        self, *, sinks: Sequence[Sink], on_recompile: OnRecompile, lock_after: int | float | None
    ) -> None:
        from graphdoctor.probe.measure.coverage import LiveCoverage
        from graphdoctor.probe.record.guards import RecompileRecorder
        from graphdoctor.probe.torch_private import torch_watch

        self.step: int | None = None
        self.events: deque[WatchEvent] = deque(maxlen=_MOST_EVENTS)
        self.compiles = self.recompiles = self.limit_hits = self.graph_breaks = 0
        self.compile_seconds = 0.0
        self._torch = torch_watch
        self._on_recompile = on_recompile
        self._locks_at: float | None = None
        self._allowed: set[CodeType] = set()
        self._compiled: set[CodeType] = set()
        """Functions that were compiled before the lock."""
        self._begun_count = 0
        self._eager: set[tuple[CodeType, str | None]] = set()
        self._under_way = _UnderWay()
        self._lock = threading.Lock()
        self._outbox = Outbox(sinks)
        self._span_sinks = [sink for sink in sinks if isinstance(sink, SpanSink)]
        # The first cause takes a tenth of a second to read.
        threading.Thread(target=cause_of_record, args=({}, _place), daemon=True).start()
        self._ends = ExitStack()
        self._compiles = compiles = torch_watch.CompileWatch(
            begin=self._on_begin, take=self._on_fields, context=self._context
        )
        compiles.install()
        self._ends.callback(compiles.close)
        with suppress(AttributeError, ImportError, KeyError):  # torch's own words remain
            self._ends.callback(RecompileRecorder(None, self._on_compared).install())
        self._coverage = None
        with suppress(AttributeError, ImportError, KeyError):  # it is unknown
            self._coverage = LiveCoverage()
            self._ends.callback(self._coverage.close)
        if isinstance(lock_after, float):
            self._locks_at = time.monotonic() + lock_after
        elif lock_after is not None:
            self._ends.callback(torch_watch.after_calls(lock_after, self.lock))
        if on_recompile == "eager":
            self._ends.callback(torch_watch.run_eagerly())
        atexit.register(self.close)

    # For the program.

    def lock(self) -> None:
        """From now on, have a recompile warned of, raise, or run eagerly, as ``on_recompile``
        says. A function that wasn't compiled until now may still be, with a warning.
        """
        self._locks_at = time.monotonic()

    @property
    def is_locked(self) -> bool:
        """Whether it is locked."""
        return self._locks_at is not None and time.monotonic() >= self._locks_at

    def allow(self, function: Callable[..., object]) -> None:
        """Let a function or module compile though locked, with the parts of it after its graph
        breaks.
        """
        from graphdoctor.probe.target.targets import plain_function
        from graphdoctor.probe.torch_private.torch_api import original_callable

        plain = plain_function(original_callable(function))
        if plain is None:
            kind = type(function).__qualname__
            raise GraphDoctorError(f"allow needs a Python function or a module, not a {kind}.")
        self._allowed.add(plain.__code__)

    def coverage(
        self,
        call: Callable[..., object],
        /,
        *args: Any,  # noqa: ANN401 - the program's own
        **kwargs: Any,  # noqa: ANN401
    ) -> Coverage | None:
        """Make a call, such as a training step, under torch's profiler, and return how much of it
        ran in compiled graphs.

        Returns:
            Its ``share`` is from 0 to 1. None if unknown: torch compiled something meanwhile, the
            program runs a profiler, or code ran that was compiled before the watch.
        """
        work = partial(call, *args, **kwargs)
        if self._coverage is None:
            work()
            return None
        before = self._begun_count
        measured = self._coverage.measure(work, self._compiles.has_seen)
        return measured if self._begun_count == before else None

    def summary(self) -> str:
        """Return the counts in a line."""
        return summary_line(
            compiles=self.compiles,
            recompiles=self.recompiles,
            limit_hits=self.limit_hits,
            graph_breaks=self.graph_breaks,
            seconds=self.compile_seconds,
        )

    def close(self) -> None:
        """Stop, restore torch, and close the sinks once they have exported what waits."""
        atexit.unregister(self.close)
        self._ends.close()
        self._outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<graphdoctor watch: {self.summary()}>"

    # While torch compiles.

    def _context(self) -> str:
        return "" if self.step is None else f"step {self.step}"

    def _on_compared(self, record: Fields) -> None:
        cause = cause_of_record(record, _place)
        self._under_way.causes = tuple(map(change_text, cause.changes))

    def _on_begin(self, begun: Begun) -> None:
        now = self._under_way
        if begun.reason is None:
            now.causes = ()
        self._begun_count += 1
        is_again = begun.reason is not None or begun.whole in self._compiled
        if not self.is_locked:
            self._compiled.add(begun.whole)
        now.is_locked = self.is_locked and begun.whole not in self._allowed
        is_eager = self._on_recompile == "eager"
        is_possible = not begun.is_fullgraph if is_eager else self._on_recompile == "raise"
        now.is_blocked = now.is_locked and is_again and is_possible
        if not now.is_blocked:
            return
        if is_eager:
            raise self._torch.RunEagerly
        kind: WatchKind = "compile" if begun.reason is None else "recompile"
        event = self._event({"kind": kind, "reason": begun.reason, **begun.names}, begun)
        hint = "seen.allow(function) lets a function compile."
        raise RecompileError(f"graphdoctor.watch {event_line(event)}.", hint=hint)

    def _on_fields(self, fields: Fields, begun: Begun | None) -> None:
        event = self._event(fields, begun)
        if begun is not None:
            self._under_way.causes = ()
            if event.is_blocked and self._on_recompile == "eager":
                # Each further call with these values asks torch again.
                if (run := (begun.code, begun.reason)) in self._eager:
                    return
                self._eager.add(run)
        with self._lock:
            if not event.is_blocked:
                self.compiles += event.kind in ("compile", "recompile")
                self.recompiles += event.kind == "recompile"
            self.limit_hits += event.kind == "limit"
            self.graph_breaks += event.graph_breaks or 0
            self.compile_seconds += event.seconds or 0
            self.events.append(event)
        self._outbox.put(event)
        for sink in self._span_sinks:
            sink.mark_span(event)

    def _event(self, fields: Fields, begun: Begun | None) -> WatchEvent:
        if begun is not None:
            now = self._under_way
            fields = {
                "causes": now.causes,
                "is_locked": now.is_locked,
                "is_blocked": now.is_blocked,
                **fields,
            }
        fields = {"time_s": time.time(), **fields}
        return WatchEvent(step=self.step, rank=self._torch.rank(), trace_id=_trace_id(), **fields)


def watch(
    *,
    to: Sequence[object] = (),
    log: bool = True,
    lock_after: int | str | None = None,
    on_recompile: OnRecompile = "warn",
) -> Watch:
    """See each compile of this process from now on: what it was, how long it took, and why.

    Nothing of it runs in a call that compiles nothing.

    Args:
        to: Where events go besides the log: ``console``, ``jsonl:events.jsonl``, ``recording``,
            ``prometheus``, ``opentelemetry``, a writer of TensorBoard or Weights & Biases, or any
            object with ``export(event)`` and ``close()``.
        log: Log events to Python's ``graphdoctor.watch`` logger: compiles at INFO; recompiles,
            limits and failures at WARNING.
        lock_after: Lock after that many calls of compiled functions, or a time such as ``"30s"``.
            Calls are counted until then only.
        on_recompile: What a recompile does once it is locked: ``warn``; ``raise`` an error in the
            call that would have compiled; or run that call ``eager``, unless it has ``fullgraph``:
            torch can't, so it warns.

    Returns:
        What it has seen, which is also a context manager that closes it.

    Raises:
        GraphDoctorError: An argument can't be used, or this torch can't be watched.
    """
    if on_recompile not in get_args(OnRecompile):
        choices = ", ".join(get_args(OnRecompile))
        raise GraphDoctorError(f"on_recompile must be one of {choices}, not {on_recompile!r}.")
    after = _lock_after(lock_after)
    sinks = [open_sink(named) for named in (*(["log"] if log else []), *to)]
    try:
        return Watch(sinks=sinks, on_recompile=on_recompile, lock_after=after)
    except (AttributeError, ImportError, KeyError) as error:
        for sink in sinks:
            sink.close()
        reason = f"{type(error).__name__}: {error}"
        raise GraphDoctorError(f"This torch can't be watched ({reason}).") from error


def _lock_after(given: int | str | None) -> int | float | None:
    """Return a number of calls as an int, or of seconds as a float."""
    if given is None or (type(given) is int and given >= 0):
        return given
    if isinstance(given, str) and (match := _SECONDS.fullmatch(given)) is not None:
        return float(match[1])
    raise GraphDoctorError(
        f"lock_after must be a number of calls, or seconds such as '30s', not {given!r}."
    )


def _place(file: str, line: int, function: str | None) -> StackEntry:
    return StackEntry(file=file, line=line, function=function or "", text=None, origin="user")


def _trace_id() -> str | None:
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    with suppress(Exception):  # the program's own tracing
        context = trace.get_current_span().get_span_context()
        return f"{context.trace_id:032x}" if context.is_valid else None
    return None
