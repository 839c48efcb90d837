"""A call cut into segments, from hand-built profiler events and from a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from graphdoctor.probe.measure import coverage
from graphdoctor.probe.measure.compile_watch import TimedCompile
from graphdoctor.probe.measure.coverage import (
    CALL_RANGE,
    RANGE_PREFIX,
    CutCall,
    Segment,
    cut_profile,
    cut_timeline,
)
from graphdoctor.probe.torch_private.torch_api import (
    CACHE_LOOKUP,
    COMPILED_BACKWARD,
    COMPILED_FORWARD,
    REGION_PREFIX,
)


@dataclass
class Event:
    """A profiler event; times in microseconds."""

    name: str
    start: float
    end: float
    cpu_parent: Any = None
    thread: int = 1
    sequence_nr: int = -1

    @property
    def time_range(self) -> SimpleNamespace:
        return SimpleNamespace(start=self.start, end=self.end)


def call(start: float = 100, end: float = 200) -> Event:
    return Event(CALL_RANGE, start, end)


def cut(*events: Event) -> list[list[Any]]:
    """The rows of a profiled call from 100 to 200."""
    return [part.row() for part in cut_profile([call(), *events]).segments]


# Under the profiler.


def test_a_call_without_an_event_has_no_segment():
    found = cut_profile([call()])
    assert (found.duration_us, found.segments, found.is_profiled) == (100, (), True)


def test_times_count_from_the_start_of_the_call():
    assert cut(Event("aten::add", 110, 115.5)) == [["eager", 10, 15.5, {"aten::add": 1}, 1]]


def test_neighbouring_eager_operations_are_one_segment():
    rows = cut(Event("aten::add", 110, 112), Event("aten::mul", 113, 115), Event("aten::add", 120, 121))
    assert rows == [["eager", 10, 21, {"aten::add": 2, "aten::mul": 1}, 3]]


def test_an_operation_inside_another_is_part_of_it():
    outer = Event("aten::linear", 110, 120)
    assert cut(outer, Event("aten::addmm", 112, 118, cpu_parent=outer)) == [["eager", 10, 20, {"aten::linear": 1}, 1]]


def test_what_is_no_operation_is_left_out():
    assert cut(Event("cudaLaunchKernel", 110, 120), Event("autograd::engine", 130, 140)) == []


def test_a_run_of_a_graph_has_its_number_and_the_compile_that_runs_it():
    region = Event(f"{REGION_PREFIX}0/1", 110, 150)
    graph = Event(f"{RANGE_PREFIX}3", 115, 145, cpu_parent=region)
    inside = Event("aten::mul", 120, 130, cpu_parent=graph)
    assert cut(region, graph, inside) == [["graph", 15, 45, "0/1", 3]]


def test_a_run_outside_any_region_has_no_compile_id():
    assert cut(Event(f"{RANGE_PREFIX}0", 115, 145)) == [["graph", 15, 45, None, 0]]


def test_eager_operations_around_a_graph_are_two_segments():
    rows = cut(Event("aten::add", 101, 102), Event(f"{RANGE_PREFIX}0", 110, 120), Event("aten::add", 121, 122))
    assert [row[0] for row in rows] == ["eager", "graph", "eager"]


def test_a_guard_check_belongs_to_the_region_that_follows_it():
    region = Event(f"{REGION_PREFIX}2/0", 120, 150)
    assert cut(Event(CACHE_LOOKUP, 110, 118), region) == [["guards", 10, 18, "2/0", None]]


def test_a_guard_check_that_found_nothing_has_no_compile_id():
    rows = cut(Event(CACHE_LOOKUP, 110, 118), Event("aten::add", 120, 125))
    assert rows == [["guards", 10, 18, None, None], ["eager", 20, 25, {"aten::add": 1}, 1]]


def test_a_guard_check_at_the_end_of_the_call_is_kept():
    assert cut(Event(CACHE_LOOKUP, 190, 198)) == [["guards", 90, 98, None, None]]


def test_what_a_guard_check_itself_does_is_no_operation_of_the_program():
    lookup = Event(CACHE_LOOKUP, 110, 118)
    rows = cut(lookup, Event("aten::lift_fresh", 112, 114, cpu_parent=lookup), Event(f"{REGION_PREFIX}0/0", 118, 150))
    assert rows == [["guards", 10, 18, "0/0", None]]


def test_two_guard_checks_in_a_row_are_two_segments():
    rows = cut(Event(CACHE_LOOKUP, 110, 112), Event(CACHE_LOOKUP, 113, 115), Event(f"{REGION_PREFIX}1/0", 116, 120))
    assert rows == [["guards", 10, 12, None, None], ["guards", 13, 15, "1/0", None]]


def test_a_backward_graph_runs_on_another_thread_and_is_known_by_its_forward():
    region = Event(f"{REGION_PREFIX}0/0", 105, 130)
    graph = Event(f"{RANGE_PREFIX}1", 110, 120, cpu_parent=region)
    forward = Event(COMPILED_FORWARD, 111, 119, cpu_parent=graph, sequence_nr=7)
    backward = Event(COMPILED_BACKWARD, 150, 170, thread=2, sequence_nr=7)
    found = cut_profile([call(), region, graph, forward, backward])
    assert [part.row() for part in found.segments] == [["graph", 10, 20, "0/0", 1], ["graph", 50, 70, "0/0", 1]]
    assert [part.is_backward for part in found.segments] == [False, True]
    assert found.forward_runs == (1,)


def test_a_backward_graph_of_an_unknown_forward_is_kept_without_a_name():
    backward = Event(COMPILED_BACKWARD, 150, 170, thread=2, sequence_nr=7)
    assert cut(backward) == [["graph", 50, 70, None, None]]


def test_other_threads_have_no_segment_in_the_call():
    assert cut(Event("aten::add", 110, 120, thread=2)) == []


def test_what_begins_before_the_call_or_ends_after_it_is_left_out():
    assert cut(Event("aten::add", 90, 110), Event("aten::mul", 190, 210), Event("aten::sub", 100, 200)) == [
        ["eager", 0, 100, {"aten::sub": 1}, 1]
    ]


def test_events_may_come_in_any_order():
    assert [row[1] for row in cut(Event(f"{RANGE_PREFIX}1", 150, 160), Event(f"{RANGE_PREFIX}0", 110, 120))] == [10, 50]


def test_segments_that_overlap_are_cut_where_the_first_ends():
    rows = cut(Event(f"{RANGE_PREFIX}0", 110, 130), Event(f"{RANGE_PREFIX}1", 120, 150))
    assert [(row[1], row[2]) for row in rows] == [(10, 30), (30, 50)]


def test_the_names_of_many_operations_are_cut_and_counted():
    rows = cut(*(Event(f"aten::op{number}", 110 + number, 110.5 + number) for number in range(20)))
    ((_, _, _, names, count),) = rows
    assert (len(names), count) == (12, 20)


# By the clock.


def test_a_timeline_is_cut_in_microseconds():
    found = cut_timeline([(4, 10.001, 10.002)], [], began=10.0, ended=10.005)
    assert found.duration_us == pytest.approx(5000)
    assert not found.is_profiled
    (part,) = found.segments
    assert (part.kind, part.graph, part.compile_id) == ("graph", 4, None)
    assert (part.start_us, part.end_us) == pytest.approx((1000, 2000))


def compiled(start: float, end: float | None, compile_id: str | None = "0/0") -> TimedCompile:
    return TimedCompile(compile_id, start, end, is_frame=True)


def test_a_compile_and_the_run_after_it_are_two_segments():
    found = cut_timeline([(0, 3.0, 4.0)], [compiled(1.0, 3.0)], began=0.0, ended=5.0)
    assert [(part.kind, part.compile_id, part.graph) for part in found.segments] == [
        ("compile", "0/0", None),
        ("graph", None, 0),
    ]


def test_a_compile_that_is_not_over_lasts_to_the_end_of_the_call():
    (part,) = cut_timeline([], [compiled(1.0, None)], began=0.0, ended=5.0).segments
    assert part.end_us == pytest.approx(5e6)


def test_a_compile_inside_another_is_part_of_it():
    found = cut_timeline([], [compiled(1.0, 4.0, "0/0"), compiled(2.0, 3.0, "1/0")], began=0.0, ended=5.0)
    assert [part.compile_id for part in found.segments] == ["0/0"]


def test_a_run_inside_a_compile_is_part_of_it():
    found = cut_timeline([(0, 2.0, 3.0)], [compiled(1.0, 4.0)], began=0.0, ended=5.0)
    assert [part.kind for part in found.segments] == ["compile"]


def test_an_empty_segment_at_the_end_of_another_is_kept():
    found = cut_timeline([(0, 1.0, 2.0), (1, 2.0, 2.0)], [], began=0.0, ended=5.0)
    assert [part.graph for part in found.segments] == [0, 1]


# What goes out.


def graphs(*numbers: int) -> CutCall:
    parts = (Segment("graph", 10.0 * n, 10.0 * n + 5, f"{n}/0", n) for n in numbers)
    return CutCall(1000.0, tuple(parts), is_profiled=True)


def test_a_repetition_is_renamed_to_what_the_program_ran():
    renamed = graphs(3, 4).renamed({"3/0": "0/1"}, {3: 0})
    assert [(part.compile_id, part.graph) for part in renamed.segments] == [("0/1", 0), (None, None)]


def test_an_event_is_rounded_to_nanoseconds():
    made = CutCall(1.23456, (Segment("graph", 0.12345, 1.0, "0/0", 2),), is_profiled=False)
    assert made.fields(5) == {
        "call": 5,
        "duration_us": 1.235,
        "is_profiled": False,
        "segments": [["graph", 0.123, 1.0, "0/0", 2]],
        "hidden": 0,
    }


def test_the_steady_call_has_no_number():
    assert graphs().fields(None)["call"] is None


def test_of_too_many_segments_the_shortest_are_hidden(monkeypatch):
    monkeypatch.setattr(coverage, "_MAX_SEGMENTS", 2)
    lengths = (5, 1, 9)
    parts = tuple(Segment("graph", 100.0 * n, 100.0 * n + length, None, n) for n, length in enumerate(lengths))
    event = CutCall(1000.0, parts, is_profiled=True).fields(1)
    assert [row[4] for row in event["segments"]] == [0, 2]
    assert event["hidden"] == 1
