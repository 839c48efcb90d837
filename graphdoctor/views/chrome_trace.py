"""Phases of compiles and calls in Chrome's trace format, which Perfetto and chrome://tracing open.

The format is "Trace Event Format", object form: complete events (``X``), lone begin events (``B``)
for what never ended, and metadata (``M``) for names. Each process has its own clock, and so has
each call; the names say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.picture import Lane, Picture
from graphdoctor.views.json import json_text

_Event = dict[str, Any]


def render_chrome_trace(diagnosis: Diagnosis, picture: Picture) -> str:
    """The trace as JSON, with a newline at the end."""
    processes = list(dict.fromkeys(phase.process for phase in picture.phases))
    events = [
        event
        for pid, name in enumerate(processes, start=1)
        for event in _process(picture, name, pid, diagnosis)
    ]
    if picture.lanes:
        events += _calls(picture.lanes, len(processes) + 1)
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "graphdoctor": diagnosis.graphdoctor_version,
            "torch": diagnosis.recording.environment.torch,
            "target": diagnosis.recording.target.text,
        },
    }
    return json_text(document, is_indented=False)


def _process(
    picture: Picture, process: str | None, pid: int, diagnosis: Diagnosis
) -> Iterator[_Event]:
    phases = [phase for phase in picture.phases if phase.process == process]
    frames = diagnosis.recording.frames_by_compile()
    name = f"torch.compile in {'the main process' if process is None else process}"
    threads = {
        thread: f"other threads ({thread})" for thread in sorted({phase.thread for phase in phases})
    }
    yield from _named(
        pid,
        name,
        "times from its first event",
        threads | {0: "compiles"} if 0 in threads else threads,
    )
    for phase in phases:
        frame = frames.get(phase.compile_id or "")
        args = {
            "compile_id": phase.compile_id,
            "function": None if frame is None else frame.name,
            "resumes_at": None if frame is None else frame.resumes_at,
            "call": phase.call_index,
            # In an object of their own, since torch may use any name.
            "torch": phase.notes or None,
        }
        event = {
            "name": phase.name,
            "cat": "phase",
            "pid": pid,
            "tid": phase.thread,
            "ts": phase.start_us,
        }
        yield event | _length(phase.duration_us) | {"args": _known(args)}


def _calls(lanes: tuple[Lane, ...], pid: int) -> Iterator[_Event]:
    names = [
        "steady call" if lane.call_index is None else f"call {lane.call_index}" for lane in lanes
    ]
    yield from _named(
        pid,
        "calls, each on its own clock",
        "times from the start of each call",
        dict(enumerate(names)),
    )
    for thread, lane in enumerate(lanes):
        name = names[thread]
        place = {"pid": pid, "tid": thread}
        args: dict[str, Any] = {
            "call": lane.call_index,
            "is_profiled": lane.is_profiled,
            "hidden_segments": lane.hidden_segments,
        }
        yield {
            "name": name,
            "cat": "call",
            **place,
            "ts": 0.0,
            **_length(lane.duration_us),
            "args": _known(args),
        }
        for segment in lane.segments:
            which = {"graph": segment.graph_index, "compile": segment.compile_id}.get(segment.kind)
            args = {
                "compile_id": segment.compile_id,
                "graph": segment.graph_index,
                "operations": segment.op_count,
                "most_frequent": segment.op_names or None,
            }
            name = segment.kind if which is None else f"{segment.kind} {which}"
            event = {"name": name, "cat": segment.kind, **place, "ts": segment.start_us}
            yield event | _length(segment.end_us - segment.start_us) | {"args": _known(args)}


def _length(duration_us: float | None) -> _Event:
    return {"ph": "B"} if duration_us is None else {"ph": "X", "dur": duration_us}


def _named(pid: int, name: str, label: str, threads: dict[int, str]) -> Iterator[_Event]:
    """The names of a process and its threads, which stand in order."""
    said: list[tuple[str, int, _Event]] = [
        ("process_name", 0, {"name": name}),
        ("process_labels", 0, {"labels": label}),
        ("process_sort_index", 0, {"sort_index": pid}),
    ]
    for thread, own in threads.items():
        said += [
            ("thread_name", thread, {"name": own}),
            ("thread_sort_index", thread, {"sort_index": thread}),
        ]
    yield from (
        {"name": kind, "ph": "M", "pid": pid, "tid": thread, "args": args}
        for kind, thread, args in said
    )


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
