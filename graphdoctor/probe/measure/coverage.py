"""How much of a call runs in compiled graphs, when each graph runs, what torch compiles meanwhile,
and the call cut into segments.

``torch.profiler`` sees every ``aten::`` operation; each compiled graph runs in a range of its own
meanwhile. (While a ``TorchDispatchMode`` is active, Dynamo bypasses compiled code.) Segments are
runs of graphs, eager operations, guard checks, compiles and backward passes, by the profiler's
clock; without it, only runs of graphs and compiles show.

A compile counts as it does in a recording: metrics that claim guarded code and count its guards.
Its start and end are those of the ``chromium_event`` records around it.
"""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from time import perf_counter
from typing import Any

from torch.profiler import ProfilerActivity, profile

from ...facts.base import Fields
from ...facts.counts import Coverage
from ...facts.recording import GraphRun, SteadyCall
from ..record.graphs import GraphCounter
from ..torch_private import torch_api, torch_trace
from ..torch_private.torch_hooks import GRAPH_RANGE, GraphGlobals, WatchedRun

# Compiles.

_ENTRY = re.compile(r"^\d+/\d+: ")


@dataclass
class TimedCompile:
    """One compile, by ``time.perf_counter``; it has no end while it isn't over."""

    compile_id: str | None
    start: float
    end: float | None


@dataclass
class Compiled:
    """What was compiled meanwhile."""

    count: int = 0
    """Compiles that got guarded code."""
    seconds: float = 0.0
    """Time of all compiles as torch measured it, including those without guarded code."""
    is_over_limit: bool = False
    """A frame hit its recompile limit, and runs eagerly from then on."""
    reason: str | None = None
    """The first guard that failed, in torch's words."""
    spans: list[TimedCompile] = field(default_factory=list)


class CompileWatch(torch_trace.TraceLooker):
    """A handler on torch's trace logger."""

    def __init__(self) -> None:
        super().__init__()
        self._compiled = Compiled()
        self._open: dict[tuple[int, str], list[TimedCompile]] = {}

    def taken(self) -> Compiled:
        """Take what was compiled since the last time."""
        compiled, self._compiled, self._open = self._compiled, Compiled(), {}
        return compiled

    def look_at(self, metadata: Fields, payload: str | None) -> None:
        """Count a compile, or note where it begins or ends."""
        compiled = self._compiled
        if metadata.get("artifact", {}).get("name") == "recompile_reasons":
            compiled.reason = compiled.reason or _first_reason(str(payload or ""))
        elif "chromium_event" in metadata:
            event = json.loads(payload or "{}")
            if (name := event.get("name")) in (torch_api.FRAME_PHASE, torch_api.BACKWARD_PHASE):
                self._note(metadata, name, event["ph"])
        # A backward graph compiled later has metrics of its own.
        elif (metrics := metadata.get("compilation_metrics", {})) and metrics.get(
            "is_forward"
        ) is not False:
            has_guards = metrics.get("guard_count") is not None
            compiled.count += bool(metrics.get("has_guarded_code")) and has_guards
            compiled.is_over_limit |= self.is_over_limit(metadata)
            compiled.seconds += (metrics.get("duration_us") or 0) / 1e6

    def _note(self, metadata: Fields, name: str, phase: str) -> None:
        started = self._open.setdefault((threading.get_ident(), name), [])
        if phase == "B":
            compile_id = torch_trace.compile_id(metadata)
            started.append(TimedCompile(compile_id, perf_counter(), None))
            self._compiled.spans.append(started[-1])
        elif phase == "E":
            started.pop().end = perf_counter()


def _first_reason(text: str) -> str | None:
    """Return the newest cache entry's first failed guard, without its compile id and the place that
    torch adds.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    first = str(value[0] if isinstance(value, list) and value else value)
    return _ENTRY.sub("", first.strip()).split("\n")[0].partition("  #")[0].strip() or None


@contextmanager
def watched_compiles() -> Iterator[CompileWatch]:
    """Count compiles, and write none of torch's records to its log, while the context lasts."""
    watch = CompileWatch()
    with torch_trace.trace_files_paused():
        torch_trace.listen(watch)
        try:
            yield watch
        finally:
            torch_api.trace_logger().removeHandler(watch)


# Coverage.

BACKWARD_RANGE = "graphdoctor_backward"
"""Profiler range of what backward adds to a call."""

CONVERSION_RANGE = "graphdoctor_conversion"
"""Profiler range of what Dynamo's code converts after a graph."""

TEXT_RANGE = "graphdoctor_text"
"""Profiler range of what writes a tensor as text."""

_OPERATION = "aten::"
_AUTOGRAD_NODE = "autograd::engine::evaluate_function"
_NOT_EAGER = (
    _OPERATION,
    GRAPH_RANGE,
    BACKWARD_RANGE,
    CONVERSION_RANGE,
    TEXT_RANGE,
    _AUTOGRAD_NODE,
    *torch_api.PROFILED_OVERHEAD,
)
MAX_NAMES = 20
_TIMED_CALLS = 15
_TIMED_S = 0.3


def measure(call: Callable[[], object], graphs: GraphGlobals) -> Coverage:
    """Run one call under the profiler."""
    return _counted(*profiled(call, graphs))


class LiveCoverage:
    """Coverage of calls of a program that runs on, of what it compiles from when this is made."""

    def __init__(self) -> None:
        counter = GraphCounter()
        with ExitStack() as undoing:
            undoing.callback(counter.install())
            self._graphs = GraphGlobals(lambda: counter.latest)
            undoing.callback(self._graphs.close)
            self.close = undoing.pop_all().close

    def measure(
        self, call: Callable[[], object], is_known: Callable[[str], bool]
    ) -> Coverage | None:
        """Make a call, under the profiler unless one runs already.

        Returns:
            None if it wasn't profiled, or ran code of a compile whose id isn't known.
        """
        if torch_api.is_profiling():
            call()
            return None
        events, runs = profiled(call, self._graphs)
        regions = filter(None, (torch_api.region_of(event.name) for event in events))
        return _counted(events, runs) if all(map(is_known, regions)) else None


def _counted(events: Sequence[Any], runs: Sequence[WatchedRun]) -> Coverage:
    eager = Counter(event.name for event in events if is_eager(event))
    operations = (event for event in events if event.name.startswith(_OPERATION))
    around = (_around(event, _NOT_EAGER) for event in operations)
    return Coverage(
        graph_ops=sum(tensor_ops for _, tensor_ops, *_ in runs),
        eager_ops=eager.total(),
        text_ops=sum(range_ is not None and range_.name == TEXT_RANGE for range_ in around),
        eager_op_names=dict(eager.most_common(MAX_NAMES)),
    )


def profiled(
    call: Callable[[], object], graphs: GraphGlobals
) -> tuple[list[Any], list[WatchedRun]]:
    """Profile one call, compiled graphs and Dynamo's conversions under ranges of their own."""
    with (
        graphs.watched() as runs,
        torch_api.marked_conversions(CONVERSION_RANGE),
        torch_api.marked_texts(TEXT_RANGE),
        profile(activities=[ProfilerActivity.CPU]) as profiler,
    ):
        call()
    return list(profiler.events()), runs


def time_runs(
    call: Callable[[], object], graphs: GraphGlobals, restore: Callable[[], object]
) -> SteadyCall:
    """Time each graph's run in a call, in the call of median length among several; ``restore`` puts
    back its arguments.
    """
    timed: list[SteadyCall] = []
    ends = perf_counter() + _TIMED_S
    while not timed or (perf_counter() < ends and len(timed) < _TIMED_CALLS):
        # The previous call may have left work on the device, which this one would wait for.
        torch_api.synchronize()
        with graphs.watched() as watched:
            began = perf_counter()
            call()
            took = perf_counter() - began
        restore()
        runs = (
            GraphRun(graph=index, start_us=(start - began) * 1e6, end_us=(end - began) * 1e6)
            for index, _, start, end, _ in watched
        )
        timed.append(SteadyCall(call_us=took * 1e6, runs=tuple(runs)))
    return sorted(timed, key=lambda timed_call: timed_call.call_us)[len(timed) // 2]


def is_eager(event: Any) -> bool:
    """Return whether it's an outermost operation of the program, outside compiled graphs.

    Autograd's and Dynamo's own operations don't count.
    """
    is_operation = event.name.startswith(_OPERATION)
    return is_operation and _around(event, _NOT_EAGER) is None


def _around(event: Any, prefixes: str | tuple[str, ...]) -> Any:
    parent = event.cpu_parent
    while parent is not None and not parent.name.startswith(prefixes):
        parent = parent.cpu_parent
    return parent


def outer_operations(ranges: Iterable[str | None]) -> Iterator[tuple[str, bool]]:
    """Yield names of one thread's operations that ``is_eager``, or that only write a tensor as
    text, and which they are.

    Args:
        ranges: A name at each beginning, None at each end.
    """
    around: list[str | None] = []
    for name in ranges:
        if name is None:
            around = around[:-1]
            continue
        outer = around[-1] if around else None
        if outer in (None, TEXT_RANGE) and name.startswith(_OPERATION):
            yield name, outer is None
        around.append(outer or (name if name.startswith(_NOT_EAGER) else None))


# Segments.

CALL_RANGE = "graphdoctor_call"
"""Profiler range of the whole call."""

_MAX_SEGMENTS = 2_000
_MAX_OPERATIONS = 12


@dataclass(frozen=True)
class Segment:
    """A part of a call."""

    kind: str
    start_us: float
    end_us: float
    compile_id: str | None = None
    """Whose code ran, or what was compiled; None when unknown."""
    graph: int | None = None
    """Its number in the order in which graphs reached the backend."""
    ops: Counter[str] = field(default_factory=Counter)

    def row(self) -> list[Any]:
        """Return the form that it has in the ``lane`` event."""
        times = [round(self.start_us, 3), round(self.end_us, 3)]
        if self.kind == "eager":
            operations = dict(self.ops.most_common(_MAX_OPERATIONS))
            return [self.kind, *times, operations, self.ops.total()]
        return [self.kind, *times, self.compile_id, self.graph]


@dataclass(frozen=True)
class CutCall:
    """One call in segments."""

    duration_us: float
    segments: tuple[Segment, ...]
    is_profiled: bool

    def fields(self, call: int | None) -> Fields:
        """Return the call, None for the steady one, as a ``lane`` event; of too many segments the
        shortest are left out.
        """
        parts = self.segments
        longest = sorted(range(len(parts)), key=lambda at: parts[at].start_us - parts[at].end_us)
        shown = sorted(longest[:_MAX_SEGMENTS])
        return {
            "call": call,
            "duration_us": round(self.duration_us, 3),
            "is_profiled": self.is_profiled,
            "segments": [parts[number].row() for number in shown],
            "hidden": len(parts) - len(shown),
        }


def cut_profile(events: Sequence[Any]) -> CutCall:
    """Cut a profiled call, all of which is under ``CALL_RANGE``, into segments."""
    whole = next(event for event in events if event.name == CALL_RANGE)
    began = whole.time_range.start
    ended = whole.time_range.end
    of_thread = [event for event in events if event.thread == whole.thread]
    of_thread.sort(key=lambda event: event.time_range.start)
    moved = (
        replace(part, start_us=part.start_us - began, end_us=part.end_us - began)
        for part in (*_of_thread(of_thread), *_backward_runs(events, of_thread))
        if part.start_us >= began and part.end_us <= ended
    )
    parts = list(_joined(_in_turns(moved)))
    parts += _backward_passes(events, parts, began, ended)
    parts.sort(key=lambda part: part.start_us)
    return CutCall(ended - began, tuple(parts), is_profiled=True)


def _backward_passes(
    events: Iterable[Any], parts: Sequence[Segment], began: float, ended: float
) -> Iterator[Segment]:
    """Between segments, from when autograd's engine began to work to when it ended, on whichever
    thread.
    """
    ranges = sorted(
        (event.time_range.start - began, event.time_range.end - began)
        for event in events
        if event.name.startswith(_AUTOGRAD_NODE)
    )
    edges = (moment for part in parts for moment in (part.start_us, part.end_us))
    ends = [0.0, *edges, ended - began]
    for start, end in zip(ends[::2], ends[1::2], strict=True):
        # Nodes follow each other, so all that can reach into a gap begin in it or last before it.
        near = ranges[max(bisect_left(ranges, (start,)) - 1, 0) : bisect_left(ranges, (end,))]
        if within := [(max(first, start), min(last, end)) for first, last in near if last > start]:
            yield Segment("backward", within[0][0], max(last for _, last in within))


def _of_thread(events: Iterable[Any]) -> Iterator[Segment]:
    lookup = None
    for event in events:
        start = event.time_range.start
        end = event.time_range.end
        # Only what comes right after a search is what it found.
        if lookup is not None and start >= lookup.end_us:
            yield replace(lookup, compile_id=torch_api.region_of(event.name))
            lookup = None
        if event.name == torch_api.CACHE_LOOKUP:
            lookup = Segment("guards", start, end)
        elif (graph := _graph(event)) is not None:
            yield Segment("graph", start, end, _compile_id(event), graph)
        elif is_eager(event):
            yield Segment("eager", start, end, ops=Counter([event.name]))
    if lookup is not None:
        yield lookup


def _backward_runs(events: Iterable[Any], of_thread: Iterable[Any]) -> Iterator[Segment]:
    """Runs of backward graphs, on whichever thread autograd makes them; the call waits for them."""
    forwards = (event for event in of_thread if event.name == torch_api.COMPILED_FORWARD)
    forward = {event.sequence_nr: event for event in forwards}
    for event in events:
        if event.name == torch_api.COMPILED_BACKWARD:
            compile_id = graph = None
            if (of := forward.get(event.sequence_nr)) is not None:
                compile_id = _compile_id(of)
                within = _around(of, GRAPH_RANGE)
                graph = None if within is None else _graph(within)
            span = event.time_range
            yield Segment("graph", span.start, span.end, compile_id, graph)


def _graph(event: Any) -> int | None:
    return int(event.name.removeprefix(GRAPH_RANGE)) if event.name.startswith(GRAPH_RANGE) else None


def _compile_id(event: Any) -> str | None:
    region = _around(event, torch_api.REGION_PREFIX)
    return None if region is None else torch_api.region_of(region.name)


def _in_turns(segments: Iterable[Segment]) -> Iterator[Segment]:
    """In order, each beginning after the end of the one before: what lies within another is left
    out.
    """
    last = 0.0
    for part in sorted(segments, key=lambda part: (part.start_us, -part.end_us)):
        if part.end_us <= last and part.start_us < last:
            continue
        yield part if part.start_us >= last else replace(part, start_us=last)
        last = part.end_us


def _joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    for kind, group in groupby(segments, key=lambda part: part.kind):
        parts = list(group)
        if kind == "eager":
            ops = sum((part.ops for part in parts), Counter[str]())
            parts = [replace(parts[0], end_us=parts[-1].end_us, ops=ops)]
        yield from parts


def cut_timeline(
    runs: Iterable[WatchedRun], compiles: Iterable[TimedCompile], *, began: float, ended: float
) -> CutCall:
    """Cut a call that was made without the profiler into segments; all times are seconds of one
    clock.
    """

    def since(moment: float) -> float:
        return (moment - began) * 1e6

    parts = [
        Segment("graph", since(start), since(end), graph=graph) for graph, _, start, end, _ in runs
    ]
    for compile_ in compiles:
        end = ended if compile_.end is None else compile_.end
        parts.append(Segment("compile", since(compile_.start), since(end), compile_.compile_id))
    return CutCall(since(ended), tuple(_in_turns(parts)), is_profiled=False)
