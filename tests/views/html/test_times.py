"""Phases of compiling, added up by name."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.guards import Guards, GuardSet
from graphdoctor.facts.picture import Lane, Phase, Picture, Segment
from graphdoctor.views.html.page import call_shares, compile_shares
from tests.factories import diagnosed
from tests.views.html.made import written


def phase(
    name: str, start_us: float, duration_us: float | None, depth: int = 0, thread: int = 0
) -> Phase:
    return Phase(
        name=name,
        compile_id="0/0",
        start_us=start_us,
        duration_us=duration_us,
        depth=depth,
        thread=thread,
    )


def test_the_parts_of_torch_share_the_compile_time() -> None:
    phases = (
        phase("dynamo", 0, 100),
        phase("bytecode_tracing", 5, 10, 1),
        phase("backend_compile", 20, 70, 1),
        phase("create_aot_dispatcher_function", 25, 60, 2),
        phase("inductor_compile", 30, 50, 3),
        phase("Scheduler.codegen", 35, 10, 4),
        phase("compile_file", 40, 38, thread=1),
        phase("async_compile.wait", 50, 25, 4),
    )
    found = {kind: us for kind, _, us, _ in compile_shares(phases)}
    assert found == {"tracing": 30, "backend": 10, "aot": 10, "inductor": 25, "compiler": 25}
    assert sum(share for *_, share in compile_shares(phases)) == 1


def test_without_phases_there_are_no_shares() -> None:
    assert compile_shares(()) == []
    assert compile_shares((phase("dynamo", 0, None),)) == []


def test_a_steady_calls_time_is_split_among_what_ran() -> None:
    segments = (
        Segment(kind="guards", start_us=0, end_us=10),
        Segment(kind="graph", start_us=20, end_us=70, compile_id="0/0"),
        Segment(kind="graph", start_us=70, end_us=80, compile_id="0/1"),
    )
    lane = Lane(call_index=None, duration_us=100, is_profiled=True, segments=segments)
    shares = {kind: us for kind, _, us, _ in call_shares(lane)}
    assert shares == {"graph": 60, "guards": 10, "python": 30}
    (*_, (_, rest, _, _)) = call_shares(lane.replace(is_profiled=False))
    assert rest == "Python, eager operations and guard checks"


def test_columns_of_guards_that_were_not_measured_are_left_out(tmp_path: Path) -> None:
    measured = GuardSet(compile_id="0/0", nodes=(), kinds={}, guard_count=3, check_us=2.0)
    guards = Guards(sets=(measured,), checks_us=2, call_us=100)
    page = written(tmp_path, diagnosed(guards=guards), Picture()).read_text()
    section = page[page.index('id="guards"') : page.index('id="guard-tree"')]
    assert "repeated, warm" in section
    for heading in ("one check in the call", "share of the call", "unknown"):
        assert heading not in section
