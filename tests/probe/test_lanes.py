"""Where the time of each call goes, measured by the probe."""

import pytest

from graphdoctor.facts.recording import Repeats
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.request import Measured
from tests.recorded import recorded
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

VARIED, MUTATED, RAISING = texts_beside(__file__)


def _read(folder, program, **asked):
    return read_recording(
        recorded(folder, program, Measured(coverage=True, lanes=True), **asked), picture=True
    )


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    changed = {"name": "f", "backend": "aot_eager", "backward": True}
    programs = {
        "varied": (VARIED, {}),
        "mutated": (MUTATED, changed),
        "raising": (RAISING, {"name": "f"}),
    }
    return {
        name: _read(tmp_path_factory.mktemp(name), program, **asked)
        for name, (program, asked) in programs.items()
    }


def _lanes(recording):
    assert recording.picture is not None
    return {lane.call_index: lane for lane in recording.picture.lanes}


def _graphs(lane):
    return [part.graph_index for part in lane.segments if part.kind == "graph"]


@pytest.mark.parametrize("name", ["varied", "mutated", "raising"])
def test_a_call_shows_its_logged_compiles_in_consecutive_segments(name, recordings):
    recording = recordings[name]
    lanes = _lanes(recording)
    for lane in lanes.values():
        moments = [
            0.0,
            *(moment for part in lane.segments for moment in (part.start_us, part.end_us)),
        ]
        assert moments == sorted(moments)
        assert moments[-1] <= lane.duration_us
        assert lane.hidden_segments == 0
    assert [call.index for call in recording.calls] == [
        index for index in lanes if index is not None
    ]
    for call in recording.calls:
        logged = {
            compile_.compile_id: compile_
            for compile_ in recording.compiles
            if compile_.call_index == call.index
        }
        shown = [part for part in lanes[call.index].segments if part.kind == "compile"]
        assert {part.compile_id for part in shown} == set(logged)
        for compile_id, compile_ in logged.items():
            longest = max(
                part.end_us - part.start_us for part in shown if part.compile_id == compile_id
            )
            # torch's own figure is of what lies inside; the lane's has its bookkeeping too.
            assert compile_.duration_s is not None
            assert compile_.duration_s * 1e6 <= longest <= lanes[call.index].duration_us
        # It is the very call: what is drawn lies within what the call took.
        if logged and call.duration_s is not None:
            assert lanes[call.index].duration_us <= call.duration_s * 1e6


def test_the_steady_lane_agrees_with_coverage(recordings):
    varied = recordings["varied"]
    lane = _lanes(varied)[None]
    assert varied.coverage is not None
    assert varied.steady_call is not None
    assert lane.is_profiled
    eager = [part for part in lane.segments if part.kind == "eager"]
    assert sum(part.op_count or 0 for part in eager) == varied.coverage.eager_ops == 2
    assert {
        name: count for part in eager for name, count in part.op_names.items()
    } == varied.coverage.eager_op_names
    assert _graphs(lane) == [run.graph for run in varied.steady_call.runs]
    operations = sum(
        varied.graphs[index].tensor_op_count or 0 for index in _graphs(lane) if index is not None
    )
    assert operations == varied.coverage.graph_ops


def test_each_run_of_a_graph_follows_its_guard_check(recordings):
    varied = recordings["varied"]
    lane = _lanes(varied)[None]
    kinds = [
        (part.kind, part.compile_id) for part in lane.segments if part.kind in ("guards", "graph")
    ]
    assert kinds == [(kind, part) for part in ("0/1", "1/0") for kind in ("guards", "graph")]


def test_each_call_shows_its_graphs(recordings):
    varied = recordings["varied"]
    lanes = _lanes(varied)
    # The generator sets what forward depends on: call 5 goes back to the second call's graph.
    assert {index: _graphs(lane) for index, lane in lanes.items()} == {
        1: [0, 1],
        2: [2, 1],
        3: [3, 1],
        4: [3, 1],
        5: [2, 1],
        None: [2, 1],
    }
    assert [index for index, lane in lanes.items() if lane.is_profiled] == [None]
    assert [gap.message for gap in varied.gaps] == []


def test_a_call_that_changes_its_arguments_is_steady_once_they_are_put_back(recordings):
    mutated = recordings["mutated"]
    assert mutated.repeats == Repeats(count=1, is_steady=True)
    assert mutated.coverage is not None
    # The list is as long as in call 4; forward, then the backward graph of the same.
    assert _graphs(_lanes(mutated)[None]) == [1, 1]
    assert mutated.gaps == ()


def test_a_call_that_raises_ends_its_lane(recordings):
    raising = recordings["raising"]
    lanes = _lanes(raising)
    assert raising.calls[-1].outcome == "error"
    assert list(lanes) == [1, 2, 3]
    assert not any(lane.is_profiled for lane in lanes.values())
    assert _graphs(lanes[2]) == [0, 1]
    assert _graphs(lanes[3])[0] == 0


def test_without_the_flag_nothing_is_measured(request):
    [path] = request.getfixturevalue("recorded").glob(".graphdoctor/*clean")
    recording = read_recording(path, picture=True)
    assert recording.picture is not None
    assert recording.picture.lanes == ()
