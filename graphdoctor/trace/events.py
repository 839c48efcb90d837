"""Reads the probe's events, the lines of ``probe.jsonl``, and what takes several of them: lanes,
variations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from graphdoctor.facts.base import Fact, sum_of_known
from graphdoctor.facts.picture import Lane
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Graph, Recording
from graphdoctor.facts.variations import TriedValue, Variation, Verdict

_Fact = TypeVar("_Fact", bound=Fact)
Event = Mapping[str, Any]
"""Its kind is under ``event``."""


class Events:
    """Events in the order of the file."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.all = tuple(events)
        self._last: dict[str, Event] = {event["event"]: event for event in self.all}

    def __contains__(self, kind: str) -> bool:
        return kind in self._last

    def fields(self, kind: str) -> dict[str, Any]:
        """The fields of the last event of a kind, without the kind; empty if there is none."""
        return {key: value for key, value in self._last.get(kind, {}).items() if key != "event"}

    def of(self, kind: str) -> list[Event]:
        """All events of a kind."""
        return [event for event in self.all if event["event"] == kind]

    def fact(self, kind: str, fact: type[_Fact]) -> _Fact | None:
        """The fact in the last event of a kind; None if there is none."""
        return read_fact(fact, self.fields(kind)) if kind in self else None

    @property
    def guard_cost(self) -> Mapping[str, Any] | None:
        """What guard checks cost; None if that was not measured."""
        return self._last.get("guard_cost")


def read_events(content: bytes) -> Events:
    """The events in a file's content; lines that aren't events are skipped, since a killed probe
    leaves half a line.
    """
    return Events(_parsed(content.splitlines()))


def _parsed(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event


_MAX_LANES = 200


def read_lanes(events: Events, recording: Recording) -> tuple[Lane, ...]:
    """The lanes of as many calls as are shown, preferring those that compile, and of the steady
    call.
    """
    by_call = {event["call"]: event for event in events.of("lane")}
    # The probe numbers the graphs that it recorded; a graph without nodes isn't one of them.
    graphs = [graph for graph in recording.graphs if graph.nodes is not None]
    lanes = {call: _lane(event, graphs) for call, event in by_call.items()}
    compiling = {
        call
        for call, lane in lanes.items()
        if any(segment.kind == "compile" for segment in lane.segments)
    }
    ranked = sorted(
        (call for call in lanes if call is not None), key=lambda call: (call not in compiling, call)
    )
    shown = [lanes[call] for call in sorted(ranked[:_MAX_LANES])]
    return (*shown, *([lanes[None]] if None in lanes else []))


def _lane(event: Event, graphs: Sequence[Graph]) -> Lane:
    lane = {
        "call_index": event["call"],
        "duration_us": event["duration_us"],
        "is_profiled": event["is_profiled"],
    }
    lane |= {
        "segments": [_segment(row, graphs) for row in event["segments"]],
        "hidden_segments": event["hidden"],
    }
    return read_fact(Lane, lane)


def _segment(row: Sequence[Any], graphs: Sequence[Graph]) -> dict[str, object]:
    kind, start, end, *rest = row
    segment = {"kind": kind, "start_us": start, "end_us": end}
    if kind == "eager":
        return segment | {"op_names": rest[0], "op_count": rest[1]}
    compile_id, number = rest
    graph = graphs[number] if number is not None and number < len(graphs) else None
    if graph is not None:
        segment |= {"compile_id": graph.compile_id, "graph_index": graph.index}
    return segment | ({} if compile_id is None else {"compile_id": compile_id})


_NOT_REACHED = "the run ended first"


def read_variations(events: Events) -> tuple[Variation, ...] | None:
    """The variations of a run in the order of the plan; None if none were asked for."""
    if "vary_plan" not in events:
        return None
    plan = events.fields("vary_plan")["properties"]
    found = {event["number"]: _variation(event) for event in events.of("variation")}
    if "vary_end" not in events:
        for number, planned in enumerate(plan):
            if number not in found:
                found[number] = read_fact(
                    Variation, {**planned, "verdict": "not_varied", "reason": _NOT_REACHED}
                )
    return tuple(found[number] for number in sorted(found))


def _variation(event: Event) -> Variation:
    fields: dict[str, Any] = {
        key: value for key, value in event.items() if key not in ("event", "number", "tried")
    }
    tried = tuple(read_fact(TriedValue, value) for value in event.get("tried", ()))
    seconds = sum_of_known(value.compile_s for value in tried)
    reason = fields.pop("reason", None)
    verdict = verdict_of(tried) if reason is None else "not_varied"
    return read_fact(
        Variation,
        fields | {"tried": tried, "verdict": verdict, "compile_s": seconds, "reason": reason},
    )


def verdict_of(tried: Sequence[TriedValue]) -> Verdict:
    """The verdict on a property from the values tried; special values count only if there are no
    others.
    """
    made = [value for value in tried if value.outcome != "fails_eager"]
    counted = [value for value in made if not value.is_special] or made
    outcomes = {value.outcome for value in counted}
    if not outcomes:
        return "not_varied"
    if "free" in outcomes:
        return "free" if len(outcomes) == 1 else "generalises"
    return "fails" if outcomes == {"fails_compiled"} else "recompiles"
