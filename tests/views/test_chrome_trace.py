"""The Chrome trace: its structure, and that it says what the picture says."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from graphdoctor.facts.picture import Lane, Phase, Picture, Segment
from graphdoctor.facts.recording import Recording
from graphdoctor.trace.reader import read_recording
from graphdoctor.views.chrome_trace import render_chrome_trace
from tests.each import for_each
from tests.factories import compiled, diagnosed, frame, recording
from tests.trace.test_recordings import RECORDINGS, VERSIONS

PHASES = (
    Phase(name="dynamo", compile_id="0/0", call_index=1, start_us=0.0, duration_us=100.0, depth=0),
    Phase(
        name="</script>",
        compile_id="0/0",
        call_index=1,
        start_us=1.5,
        duration_us=None,
        depth=1,
        notes={"a": "b"},
    ),
    Phase(name="compile_file", compile_id=None, start_us=2.0, duration_us=200.0, depth=0, thread=1),
    Phase(
        name="dynamo",
        compile_id="rank1:0/0",
        start_us=0.0,
        duration_us=5.0,
        depth=0,
        process="rank1",
    ),
)
LANES = (
    Lane(
        call_index=2,
        duration_us=50.0,
        is_profiled=False,
        segments=(
            Segment(kind="compile", start_us=0.0, end_us=30.0, compile_id="0/1"),
            Segment(kind="graph", start_us=30.0, end_us=40.0, compile_id="0/1", graph_index=3),
        ),
    ),
    Lane(
        call_index=None,
        duration_us=20.0,
        is_profiled=True,
        hidden_segments=4,
        segments=(
            Segment(kind="eager", start_us=1.0, end_us=2.5, op_names={"aten::add": 2}, op_count=2),
        ),
    ),
)


def trace_of(found: Recording, picture: Picture) -> list[dict[str, Any]]:
    """The events, each checked for what every reader of the format needs."""
    text = render_chrome_trace(diagnosed(found, version="1.2"), picture)
    assert text.endswith("}\n")
    document = json.loads(text)
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
    open_until: dict[tuple[int, int], list[float]] = defaultdict(list)
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["args"], dict)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            continue
        assert event["ph"] in ("X", "B")
        assert event["ts"] >= 0
        # Chrome draws one thread's events nested: what starts inside one may not outlast it.
        ends = open_until[event["pid"], event["tid"]]
        while ends and ends[-1] <= event["ts"]:
            ends.pop()
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert not ends or event["ts"] + event["dur"] <= ends[-1] + 1e-6
            ends.append(event["ts"] + event["dur"])
    names = [
        (event["name"], event["pid"], event["tid"])
        for event in document["traceEvents"]
        if event["ph"] == "M"
    ]
    assert len(names) == len(set(names))
    used = {(event["pid"], event["tid"]) for event in document["traceEvents"] if event["ph"] != "M"}
    assert used == {(pid, tid) for name, pid, tid in names if name == "thread_name"}
    return document["traceEvents"]


def named(events: list[dict[str, Any]], kind: str) -> dict[tuple[int, int], str]:
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == kind
    }


def test_phases_and_calls_are_tracks_with_names() -> None:
    found = recording(compiles=(compiled("0/0"),), frames=(frame(0, resumes_at=12),))
    events = trace_of(found, Picture(phases=PHASES, lanes=LANES))

    assert named(events, "process_name") == {
        (1, 0): "torch.compile in the main process",
        (2, 0): "torch.compile in rank1",
        (3, 0): "calls, each on its own clock",
    }
    assert named(events, "thread_name") == {
        (1, 0): "compiles",
        (1, 1): "other threads (1)",
        (2, 0): "compiles",
        (3, 0): "call 2",
        (3, 1): "steady call",
    }
    first, unended = [event for event in events if event["ph"] != "M"][:2]
    function = found.frames[0].qualname or found.frames[0].function
    assert (first["ph"], first["ts"], first["dur"]) == ("X", 0, 100)
    assert first["args"] == {"compile_id": "0/0", "function": function, "resumes_at": 12, "call": 1}
    assert (unended["ph"], unended["args"]["torch"], "dur" in unended) == ("B", {"a": "b"}, False)
    calls = {event["name"]: event for event in events if event["pid"] == 3 and event["ph"] == "X"}
    assert {name: (event["tid"], event["ts"], event["dur"]) for name, event in calls.items()} == {
        "call 2": (0, 0, 50),
        "compile 0/1": (0, 0, 30),
        "graph 3": (0, 30, 10),
        "steady call": (1, 0, 20),
        "eager": (1, 1, 1.5),
    }
    assert calls["steady call"]["args"] == {"is_profiled": True, "hidden_segments": 4}
    assert calls["eager"]["args"] == {"operations": 2, "most_frequent": {"aten::add": 2}}


def test_a_picture_of_nothing_is_a_trace_of_nothing() -> None:
    assert trace_of(recording(), Picture()) == []


@for_each("version", VERSIONS)
@for_each("name", ["print_in_helper", "print_in_helper.bare"])
def test_a_real_log_gives_an_event_for_each_phase(version: str, name: str) -> None:
    found = read_recording(RECORDINGS / version / name, picture=True)

    events = [
        event
        for event in trace_of(found, found.picture)
        if event["ph"] == "X" and event["cat"] == "phase"
    ]

    assert [
        (event["name"], event["ts"], event["dur"], event["args"]["compile_id"]) for event in events
    ] == [
        (phase.name, phase.start_us, phase.duration_us, phase.compile_id)
        for phase in found.picture.phases
    ]
    functions = {event["args"]["compile_id"]: event["args"]["function"] for event in events}
    assert [functions[compile_.compile_id].rpartition(".")[2] for compile_ in found.compiles] == [
        *("forward", "report", "report", "forward")
    ]
