"""The probe's events: lanes of calls, and what another version wrote, which is refused in words."""

import json

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.recording import Graph
from graphdoctor.trace.events import Events, read_lanes
from graphdoctor.trace.reader import read_recording
from tests.factories import recording


def _lane(call, *segments, is_profiled=False):
    return {
        "event": "lane",
        "call": call,
        "duration_us": 10.0,
        "is_profiled": is_profiled,
        "segments": list(segments),
        "hidden": 0,
    }


def _graph(index, compile_id, **values):
    return Graph(compile_id=compile_id, index=index, op_count=1, **values)


def test_a_call_that_was_repeated_counts_as_repeated():
    events = [
        _lane(1, ["compile", 0.0, 4.0, "0/0", None]),
        _lane(2, ["graph", 1.0, 2.0, None, 0]),
        _lane(None, is_profiled=True),
        _lane(
            2,
            ["guards", 0.5, 0.75, "0/0", None],
            ["eager", 1, 2, {"aten::sin": 2}, 2],
            is_profiled=True,
        ),
    ]
    lanes = read_lanes(Events(events), recording(graphs=(_graph(0, "0/0", nodes=()),)))
    assert [(lane.call_index, lane.is_profiled) for lane in lanes] == [
        (1, False),
        (2, True),
        (None, True),
    ]
    guards, eager = lanes[1].segments
    assert (guards.kind, guards.compile_id, guards.start_us) == ("guards", "0/0", 0.5)
    assert (eager.op_names, eager.op_count, eager.compile_id) == ({"aten::sin": 2}, 2, None)


def test_of_too_many_calls_those_that_compile_are_shown_first():
    events = [
        _lane(call, *([["compile", 0, 1, "0/0", None]] if call % 3 == 0 else []))
        for call in range(1, 401)
    ]
    calls = [lane.call_index for lane in read_lanes(Events(events), recording())]
    assert len(calls) == 200
    assert calls == sorted(calls)
    assert set(range(3, 401, 3)) < set(calls)
    assert max(call for call in calls if call % 3) < 110


@pytest.mark.parametrize(
    "event",
    [
        {
            "event": "lane",
            "call": 1,
            "duration_us": "long",
            "is_profiled": False,
            "segments": [],
            "hidden": 0,
        },
        {"event": "gap", "kind": "of no kind", "message": "?"},
        {"event": "coverage", "ops": "many"},
    ],
    ids=lambda event: event["event"],
)
def test_an_event_that_does_not_fit_is_of_another_version(tmp_path, event):
    (tmp_path / "recording.json").write_text('{"format": 1, "target": {}}')
    (tmp_path / "probe.jsonl").write_text(json.dumps(event) + "\n")

    with pytest.raises(GraphDoctorError, match="another version of graphdoctor"):
        read_recording(tmp_path, picture=True)
