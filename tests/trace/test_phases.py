"""Events of a log to phases of compiles."""

import json
import re
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.facts.picture import Autotuned
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.picture import Phases
from graphdoctor.trace.reader import read_recording
from tests.each import for_each
from tests.trace.test_merge import log_of
from tests.trace.test_recordings import RECORDINGS, VERSIONS

NAMES = [
    f"{version}/{path.name}"
    for version in VERSIONS
    for path in sorted((RECORDINGS / version).iterdir())
    # Those were kept without the events, which are most of their log.
    if not path.name.startswith(("lowered", "refused", "exported"))
]
EPOCH_US = 1795268840245516.75


def event(told, **args):
    """A begin, an end or a moment: ``B dynamo 10`` of compile 0/0, or ``B dynamo 10 1/0``."""
    ph, name, at, compile_id = f"{told} 0/0".split()[:4]
    args["compile_id"] = compile_id
    payload = {"ph": ph, "name": name, "ts": EPOCH_US + int(at), "tid": 0, "args": args}
    return Record("chromium_event", {}, {"chromium_event": {}}, json.dumps(payload))


def taken(*events, call_index=1):
    phases = Phases()
    for told in events:
        record = event(told) if isinstance(told, str) else told
        phases.add(replace(record, call_index=call_index))
    return phases


Shape = tuple[str, float, float | None, int, int]


def shape(phases):
    """Name, start, duration, thread and depth of each."""
    return [
        f"{phase.name} {phase.start_us:g} {phase.duration_us} {phase.thread} {phase.depth}"
        for phase in phases
    ]


def test_what_begins_inside_lies_deeper():
    phases = taken(
        "B dynamo 0",
        "B a 10",
        "B a 20",
        event("E a 30", key="inner"),
        event("E a 40", key="outer", parts=["a", "b"], long="x" * 5000, none=None),
        "B b 40",
        "E b 50",
        "E dynamo 60",
    ).finish()

    assert shape(phases) == ["dynamo 0 60.0 0 0", "a 10 30.0 0 1", "a 20 10.0 0 2", "b 40 10.0 0 1"]
    assert [phase.notes for phase in phases[1:3]] == [
        {"key": "outer", "parts": "a, b"},
        {"key": "inner"},
    ]
    assert {(phase.compile_id, phase.process, phase.call_index) for phase in phases} == {
        ("0/0", None, 1)
    }


@for_each(
    "events, expected",
    [
        # A phase without an end has no duration, and ends with what is around it.
        (
            ["B dynamo 0", "B lost 10", "E dynamo 20", "B dynamo 30 1/0", "B killed 40 1/0"],
            ["dynamo 0 20.0 0 0", "lost 10 None 0 1", "dynamo 30 None 0 0", "killed 40 None 0 1"],
        ),
        # A clock that is set back gives no negative duration.
        (["B a 10", "E a 5"], ["a 0 None 0 0"]),
        # Two compiles that overlap are in two threads.
        (["B a 0 0/0", "B b 5 1/0", "E a 10 0/0", "E b 15 1/0"], ["a 0 10.0 0 0", "b 5 10.0 1 0"]),
    ],
)
def test_where_phases_lie(events, expected):
    assert shape(taken(*events).finish()) == expected


def test_end_without_a_begin_is_refused_alone():
    phases = taken("B dynamo 0")

    with pytest.raises(ValueError, match="without a begin"):
        phases.add(event("E other 5"))
    phases.add(event("E dynamo 9"))

    assert shape(phases.finish()) == ["dynamo 0 9.0 0 0"]


def test_overlapping_threads_are_one_phase_beside_the_compile():
    # Two kernels are compiled from Scheduler.codegen on; a third one begins before the second has
    # ended.
    phases = taken(
        "B codegen 0",
        "B compile_file 5 None",
        "B compile_file 6 None",
        "E codegen 10",
        "B wait 11",
        "E compile_file 12 None",
        "B compile_file 13 None",
        "E compile_file 20 None",
        "E compile_file 25 None",
        "E wait 26",
        "B compile_file 30 None",
        "E compile_file 31 None",
    ).finish()

    assert shape(phases) == [
        "codegen 0 10.0 0 0",
        "compile_file 5 20.0 1 0",
        "wait 11 15.0 0 0",
        "compile_file 30 1.0 0 0",
    ]
    assert phases[1].compile_id is None


def test_what_belongs_to_a_repetition_of_ours_is_left_out():
    phases = taken("B a 0", "E a 1")
    for record, is_extra in [
        (event("B b 2"), True),
        (event("B c 3"), False),
        (event("E c 4"), True),
    ]:
        phases.add(replace(record, is_extra=is_extra))

    assert [phase.name for phase in phases.finish()] == ["a"]


KINDS = st.tuples(
    st.sampled_from("BBEE"),
    st.sampled_from("ab"),
    st.sampled_from(["0/0", "1/0", None]),
    st.booleans(),
)


@given(st.lists(KINDS, max_size=40))
def test_any_events_give_nested_phases(kinds):
    phases = Phases()
    begun = 0
    clock = 0
    for ph, name, compile_id, is_later in kinds:
        clock += is_later
        begun += ph == "B"
        try:
            phases.add(event(f"{ph} {name} {clock} {compile_id}"))
        except ValueError:
            assert ph == "E"

    nested = phases.finish()
    assert len(nested) <= begun
    threads = defaultdict(list)
    for phase in nested:
        threads[phase.thread].append(phase)
    for thread in threads.values():
        spans = [
            (phase.start_us, phase.start_us + phase.duration_us, phase.depth)
            for phase in thread
            if phase.duration_us is not None
        ]
        for start, end, depth in spans:
            for other_start, other_end, other_depth in spans:
                # One lies within the other, or they do not meet.
                if start < other_start < end:
                    assert other_end <= end
                    assert other_depth > depth


# Real logs.


def picture_of(path):
    recording = read_recording(path, picture=True)
    assert recording.picture is not None
    return recording, recording.picture.phases


def assert_agrees_with_the_metrics(recording, phases):
    by_name = defaultdict(dict)
    for phase in phases:
        assert phase.duration_us is not None
        by_name[phase.name][phase.compile_id] = phase.duration_us
    times = [(item.compile_id, item.duration_s, item.backend_s) for item in recording.compiles]
    whole = {compile_id: (seconds or 0) * 1e6 for compile_id, seconds, _ in times}
    backend = {compile_id: seconds * 1e6 for compile_id, _, seconds in times if seconds}
    # torch adds up whole microseconds.
    assert by_name["entire_frame_compile"] == pytest.approx(whole, abs=1)
    assert by_name["backend_compile"] == pytest.approx(backend, abs=1)


@for_each("name", NAMES)
def test_durations_are_those_of_the_metrics(name):
    recording, phases = picture_of(RECORDINGS / name)

    assert_agrees_with_the_metrics(recording, phases)
    assert phases[0].start_us == 0
    assert {phase.thread for phase in phases} == {0}
    assert {phase.depth for phase in phases if phase.name == "dynamo"} == {0}
    is_bare = name.endswith(".bare")
    calls = {compile_.compile_id: compile_.call_index for compile_ in recording.compiles}
    assert all(
        phase.call_index == (None if is_bare else calls[phase.compile_id or ""]) for phase in phases
    )


def test_reset_renames_compiles_and_keeps_the_clock(tmp_path):
    log = log_of("item")
    later = re.sub(rb'"ts": (\d+)', lambda match: b'"ts": %d' % (int(match[1]) + 10**9), log)
    (tmp_path / "dedicated_log_torch_trace_x.log").write_bytes(log + later)

    recording, phases = picture_of(tmp_path)

    assert_agrees_with_the_metrics(recording, phases)
    half = len(phases) // 2
    assert [f"reset1:{phase.compile_id}" for phase in phases[:half]] == [
        phase.compile_id for phase in phases[half:]
    ]
    assert {
        later.start_us - first.start_us for first, later in zip(phases, phases[half:], strict=False)
    } == {1e9}
    assert [(first.depth, first.notes) for first in phases[:half]] == [
        (p.depth, p.notes) for p in phases[half:]
    ]


def test_what_inductor_timed_is_kept_in_whole():
    # As ``_log_autotune_choices_stats`` writes it, ``torch/_inductor/select_algorithm.py``, 2.13.
    stats = {
        "num_choices": 20,
        "num_triton_choices": 19,
        "best_kernel": "mm",
        "best_time": 0.0123,
        "best_triton_time": 0.0145,
        "best_triton_kernel": "triton_mm_12",
        "best_triton_kernel_desc": "x" * 400,
    }
    name = "mm_template_autotuning"
    end = event(f"E {name} 50", autotune_choices_stats=json.dumps(stats))
    assert taken(f"B {name} 0", end).autotuned() == [
        Autotuned(
            operation="mm",
            compile_id="0/0",
            choices=20,
            triton_choices=19,
            best="mm",
            best_us=pytest.approx(12.3),
            best_settings=None,
            triton="triton_mm_12",
            triton_us=pytest.approx(14.5),
        )
    ]
    assert taken("B a 0", "E a 5").autotuned() == []
