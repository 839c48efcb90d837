"""Cuts a call into segments: runs of graphs, eager operations, guard checks, compiles.

Under the profiler all of them are its own events, so one clock measures the whole call. Without it, only runs of graphs
and compiles are known, by ``time.perf_counter``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..torch_private import torch_api
from .compile_watch import TimedCompile
from .coverage import RANGE_PREFIX, is_eager

CALL_RANGE = "graphdoctor_call"
"""Profiler range of the whole call."""

_MAX_SEGMENTS = 2_000
_MAX_NAMES = 12


@dataclass(frozen=True)
class Segment:
    """A part of a call.

    Args:
        compile_id: Whose code ran, or what was compiled; None when unknown.
        graph: Number of the graph in the order in which graphs reached the backend.
        is_backward: It is the graph's backward that ran.
    """

    kind: str
    start_us: float
    end_us: float
    compile_id: str | None = None
    graph: int | None = None
    is_backward: bool = False
    ops: Counter[str] = field(default_factory=Counter)

    def row(self) -> list[Any]:
        """In the form of the ``lane`` event."""
        times = [round(self.start_us, 3), round(self.end_us, 3)]
        if self.kind == "eager":
            return [self.kind, *times, dict(self.ops.most_common(_MAX_NAMES)), self.ops.total()]
        return [self.kind, *times, self.compile_id, self.graph]


@dataclass(frozen=True)
class CutCall:
    """One call in segments."""

    duration_us: float
    segments: tuple[Segment, ...]
    is_profiled: bool

    @property
    def forward_runs(self) -> tuple[int | None, ...]:
        """Numbers of the graphs that ran, but for backward graphs, which only the profiler sees."""
        return tuple(part.graph for part in self.segments if part.kind == "graph" and not part.is_backward)

    def renamed(self, compile_ids: Mapping[str | None, str | None], graphs: Mapping[int | None, int]) -> CutCall:
        """The same call with other compile ids and numbers of graphs; unknown ones become None."""
        parts = (
            replace(part, compile_id=compile_ids.get(part.compile_id), graph=graphs.get(part.graph))
            for part in self.segments
        )
        return replace(self, segments=tuple(parts))

    def fields(self, call: int | None) -> dict[str, object]:
        """The call as a ``lane`` event; where there are too many segments, the shortest are left out.

        Args:
            call: Its number; None for the steady call.
        """
        parts = self.segments
        longest = sorted(range(len(parts)), key=lambda number: parts[number].start_us - parts[number].end_us)
        shown = sorted(longest[:_MAX_SEGMENTS])
        return {
            "call": call,
            "duration_us": round(self.duration_us, 3),
            "is_profiled": self.is_profiled,
            "segments": [parts[number].row() for number in shown],
            "hidden": len(parts) - len(shown),
        }


def cut_profile(events: Sequence[Any]) -> CutCall:
    """Cut a profiled call into segments.

    Args:
        events: The profiler's events; one of them is the whole call, under ``CALL_RANGE``.
    """
    whole = next(event for event in events if event.name == CALL_RANGE)
    began, ended = whole.time_range.start, whole.time_range.end
    own = sorted((event for event in events if event.thread == whole.thread), key=_start)
    found = [*_of_thread(own), *_backward_runs(events, own)]
    inside = (part for part in found if part.start_us >= began and part.end_us <= ended)
    moved = (replace(part, start_us=part.start_us - began, end_us=part.end_us - began) for part in inside)
    return CutCall(ended - began, tuple(_joined(_in_turns(moved))), is_profiled=True)


def _start(event: Any) -> float:  # noqa: ANN401
    return float(event.time_range.start)


def _of_thread(events: Iterable[Any]) -> Iterator[Segment]:
    """Forward runs of graphs, guard checks and single eager operations, nested ones included."""
    lookup: Segment | None = None
    for event in events:
        start, end = event.time_range.start, event.time_range.end
        # Only what comes right after a search is what it found.
        if lookup is not None and start >= lookup.end_us:
            yield replace(lookup, compile_id=_region_name(event))
            lookup = None
        if event.name == torch_api.CACHE_LOOKUP:
            lookup = Segment("guards", start, end)
        elif event.name.startswith(RANGE_PREFIX):
            yield Segment("graph", start, end, _compile_id(event), graph_number(event.name))
        elif is_eager(event):
            yield Segment("eager", start, end, ops=Counter([event.name]))
    if lookup is not None:
        yield lookup


def _backward_runs(events: Iterable[Any], own: Iterable[Any]) -> Iterator[Segment]:
    """Runs of backward graphs, on whichever thread autograd makes them; the call waits for them."""
    forward = {event.sequence_nr: event for event in own if event.name == torch_api.COMPILED_FORWARD}
    for event in events:
        if event.name != torch_api.COMPILED_BACKWARD:
            continue
        of = forward.get(event.sequence_nr)
        within = None if of is None else _ancestor(of, RANGE_PREFIX)
        yield Segment(
            "graph",
            event.time_range.start,
            event.time_range.end,
            None if of is None else _compile_id(of),
            None if within is None else graph_number(within.name),
            is_backward=True,
        )


def graph_number(range_name: str) -> int:
    """The graph of a range."""
    return int(range_name.removeprefix(RANGE_PREFIX))


def _compile_id(event: Any) -> str | None:  # noqa: ANN401
    region = _ancestor(event, torch_api.REGION_PREFIX)
    return None if region is None else _region_name(region)


def _region_name(event: Any) -> str | None:  # noqa: ANN401
    name = str(event.name)
    return name.removeprefix(torch_api.REGION_PREFIX) if name.startswith(torch_api.REGION_PREFIX) else None


def _ancestor(event: Any, prefix: str) -> Any:  # noqa: ANN401
    parent = event.cpu_parent
    while parent is not None and not parent.name.startswith(prefix):
        parent = parent.cpu_parent
    return parent


def _in_turns(segments: Iterable[Segment]) -> Iterator[Segment]:
    """In order, each beginning after the end of the one before: what lies within another is left out."""
    last = 0.0
    for part in sorted(segments, key=lambda part: (part.start_us, -part.end_us)):
        if part.end_us <= last and part.start_us < last:
            continue
        yield part if part.start_us >= last else replace(part, start_us=last)
        last = part.end_us


def _joined(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Eager operations with nothing else between them, as one segment."""
    waiting: Segment | None = None
    for part in segments:
        if waiting is not None and part.kind == "eager":
            waiting = replace(waiting, end_us=part.end_us, ops=waiting.ops + part.ops)
            continue
        if waiting is not None:
            yield waiting
        waiting = part if part.kind == "eager" else None
        if waiting is None:
            yield part
    if waiting is not None:
        yield waiting


def cut_timeline(
    runs: Iterable[tuple[int, float, float]],
    compiles: Iterable[TimedCompile],
    *,
    began: float,
    ended: float,
) -> CutCall:
    """Cut a call that was made without the profiler into segments; all times are seconds of one clock."""

    def since(moment: float) -> float:
        return (moment - began) * 1e6

    found = [Segment("graph", since(start), since(end), graph=graph) for graph, start, end in runs]
    for made in compiles:
        end = ended if made.end is None else made.end
        found.append(Segment("compile", since(made.start), since(end), made.compile_id))
    return CutCall(since(ended), tuple(_in_turns(found)), is_profiled=False)
