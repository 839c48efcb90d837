"""Lays calls out on a time axis, from the probe's ``lane`` events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoctor.facts.picture import Lane, Segment
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Graph, Recording
from graphdoctor.trace.events import Event

_MAX_LANES = 200


def read_lanes(events: Sequence[Event], recording: Recording) -> tuple[Lane, ...]:
    """The lanes of as many calls as are shown, preferring those that compile, and of the steady call."""
    by_call = {event["call"]: event for event in events if event["event"] == "lane"}
    # The probe numbers the graphs that it recorded; a graph without nodes isn't one of them.
    graphs = [graph for graph in recording.graphs if graph.nodes is not None]
    lanes = {call: _lane(event, graphs) for call, event in by_call.items()}
    ranked = sorted((call for call in lanes if call is not None), key=lambda call: (not _compiles(lanes[call]), call))
    shown = [lanes[call] for call in sorted(ranked[:_MAX_LANES])]
    return (*shown, *([lanes[None]] if None in lanes else []))


def _lane(event: Event, graphs: Sequence[Graph]) -> Lane:
    return read_fact(
        Lane,
        {
            "call_index": event["call"],
            "duration_us": event["duration_us"],
            "is_profiled": event["is_profiled"],
            "segments": tuple(_segment(row, graphs) for row in event["segments"]),
            "hidden_segments": event["hidden"],
        },
    )


def _segment(row: Sequence[Any], graphs: Sequence[Graph]) -> Segment:
    kind, start, end, *rest = row
    if kind == "eager":
        names, count = rest
        return read_fact(
            Segment, {"kind": kind, "start_us": start, "end_us": end, "op_names": names, "op_count": count}
        )
    compile_id, number = rest
    graph = graphs[number] if number is not None and number < len(graphs) else None
    return read_fact(
        Segment,
        {
            "kind": kind,
            "start_us": start,
            "end_us": end,
            "compile_id": compile_id if compile_id is not None or graph is None else graph.compile_id,
            "graph_index": None if graph is None else graph.index,
        },
    )


def _compiles(lane: Lane) -> bool:
    return any(segment.kind == "compile" for segment in lane.segments)
