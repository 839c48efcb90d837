"""A call cut into segments, from hand-built profiler events and from a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from graphdoctor.probe.measure import coverage
from graphdoctor.probe.measure.coverage import (
    CALL_RANGE,
    CutCall,
    Segment,
    TimedCompile,
    cut_profile,
    cut_timeline,
)
from graphdoctor.probe.torch_private.torch_api import (
    CACHE_LOOKUP,
    COMPILED_BACKWARD,
    COMPILED_FORWARD,
    REGION_PREFIX,
)
from graphdoctor.probe.torch_private.torch_hooks import GRAPH_RANGE


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
    def time_range(self):
        return SimpleNamespace(start=self.start, end=self.end)


def call(start=100, end=200):
    return Event(CALL_RANGE, start, end)


def read(event):
    """An event that may be a text: name, start and end."""
    if not isinstance(event, str):
        return event
    name, start, end = event.rsplit(" ", 2)
    return Event(name, int(start), int(end))


def cut(*events):
    """The rows of a profiled call from 100 to 200."""
    return [part.row() for part in cut_profile([call(), *map(read, events)]).segments]


# Under the profiler.


def inside(outer, name, start, end):
    return Event(name, start, end, cpu_parent=outer)


LINEAR = Event("aten::linear", 110, 120)
LOOKUP = Event(CACHE_LOOKUP, 110, 118)
REGION = Event(f"{REGION_PREFIX}0/1", 110, 150)
GRAPH = inside(REGION, f"{GRAPH_RANGE}3", 115, 145)

CUT = {
    "times count from the start": [Event("aten::add", 110, 115.5)],
    "neighbouring eager operations are one": [
        "aten::add 110 112",
        "aten::mul 113 115",
        "aten::add 120 121",
    ],
    "an operation inside another is part of it": [LINEAR, inside(LINEAR, "aten::addmm", 112, 118)],
    "what is no operation": ["cudaLaunchKernel 110 120", "autograd::engine 130 140"],
    "a graph has its number and its compile": [REGION, GRAPH, inside(GRAPH, "aten::mul", 120, 130)],
    "a graph outside any region": [f"{GRAPH_RANGE}0 115 145"],
    "eager operations around a graph": [
        "aten::add 101 102",
        f"{GRAPH_RANGE}0 110 120",
        "aten::add 121 122",
    ],
    "a check belongs to the region that follows": [
        LOOKUP,
        inside(LOOKUP, "aten::lift_fresh", 112, 114),
        f"{REGION_PREFIX}2/0 118 150",
    ],
    "a check that found nothing": [LOOKUP, "aten::add 120 125"],
    "a check at the end": [f"{CACHE_LOOKUP} 190 198"],
    "two checks in a row": [
        f"{CACHE_LOOKUP} 110 112",
        f"{CACHE_LOOKUP} 113 115",
        f"{REGION_PREFIX}1/0 116 120",
    ],
    "a backward graph of an unknown forward": [
        Event(COMPILED_BACKWARD, 150, 170, thread=2, sequence_nr=7)
    ],
    "a backward pass around its graph, on another thread": [
        "aten::ones_like 110 112",
        *(
            Event("autograd::engine::evaluate_function: MulBackward0", at, at + 4, thread=2)
            for at in (111, 120, 165)
        ),
        Event("autograd::engine::evaluate_function: CompiledFunctionBackward", 125, 152, thread=2),
        Event(COMPILED_BACKWARD, 130, 150, thread=2, sequence_nr=7),
    ],
    "another thread": [Event("aten::add", 110, 120, thread=2)],
    "before the call or after it": ["aten::add 90 110", "aten::mul 190 210", "aten::sub 100 200"],
    "any order, cut where the first ends": [f"{GRAPH_RANGE}1 120 150", f"{GRAPH_RANGE}0 110 130"],
}


def test_a_profiled_call_is_cut_into_what_ran_in_turn(snapshot):
    assert "\n".join(f"{name}: {cut(*events)}" for name, events in CUT.items()) == snapshot
    lane = cut_profile([call()])
    assert (lane.duration_us, lane.segments, lane.is_profiled) == (100, (), True)


def test_a_backward_graph_is_matched_with_its_forward():
    region = Event(f"{REGION_PREFIX}0/0", 105, 130)
    graph = Event(f"{GRAPH_RANGE}1", 110, 120, cpu_parent=region)
    forward = Event(COMPILED_FORWARD, 111, 119, cpu_parent=graph, sequence_nr=7)
    backward = Event(COMPILED_BACKWARD, 150, 170, thread=2, sequence_nr=7)
    lane = cut_profile([call(), region, graph, forward, backward])
    assert [part.row() for part in lane.segments] == [
        ["graph", 10, 20, "0/0", 1],
        ["graph", 50, 70, "0/0", 1],
    ]


def test_the_names_of_many_operations_are_cut_and_counted():
    rows = cut(*(f"aten::op{at} {at} {at + 1}" for at in range(110, 150, 2)))
    ((_, _, _, names, count),) = rows
    assert (len(names), count) == (12, 20)


# By the clock.


def run_of(graph, start, end):
    return graph, 1, start, end, 0


def compiled(start, end, compile_id="0/0"):
    return TimedCompile(compile_id, start, end)


TIMELINES = {
    "a compile and the run after it are two segments": (
        [run_of(0, 3.0, 4.0)],
        [compiled(1.0, 3.0)],
    ),
    "a compile that isn't over lasts to the end of the call": ([], [compiled(1.0, None)]),
    "what is inside a compile is part of it": (
        [run_of(0, 2.0, 3.0)],
        [compiled(1.0, 4.0), compiled(2.0, 3.0, "1/0")],
    ),
    "an empty segment at the end of another is kept": (
        [run_of(0, 1.0, 2.0), run_of(1, 2.0, 2.0)],
        [],
    ),
}


def test_runs_and_compiles_are_segments_in_turn(snapshot):
    cut = {
        name: cut_timeline(*made, began=0.0, ended=5.0).segments for name, made in TIMELINES.items()
    }
    assert (
        "\n".join(f"{name}: {[part.row() for part in parts]}" for name, parts in cut.items())
        == snapshot
    )
    lane = cut_timeline([run_of(4, 10.001, 10.002)], [], began=10.0, ended=10.005)
    assert (lane.duration_us, lane.is_profiled) == (pytest.approx(5000), False)
    assert lane.segments[0].row() == ["graph", 1000, 2000, None, 4]


# What goes out.


def test_of_too_many_segments_the_shortest_are_hidden(monkeypatch):
    monkeypatch.setattr(coverage, "_MAX_SEGMENTS", 2)
    lengths = (5.0001, 1, 9)
    parts = tuple(
        Segment("graph", 100.0 * n, 100.0 * n + length, None, n) for n, length in enumerate(lengths)
    )
    event = CutCall(1.23456, parts, is_profiled=True).fields(1)
    assert event.pop("segments") == [["graph", 0, 5, None, 0], ["graph", 200, 209, None, 2]]
    assert event == {"call": 1, "duration_us": 1.235, "is_profiled": True, "hidden": 1}
