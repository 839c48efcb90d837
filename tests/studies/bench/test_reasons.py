"""Which findings explain a variant's speed, and in which order."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.diagnosis import Cost, Effects, Finding, Location
from graphdoctor.facts.guards import Guards
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.studies.bench.reasons import MOST, reasons
from tests.factories import diagnosed

KERNELS = KernelShare(call_us=1000.0, library_us=900.0, generated_us=20.0, copy_us=0.0, launches=4, region_runs=1)


def finding(code: str, *, call_us: float | None = None, **values: Any) -> Finding:
    cost = None if call_us is None else Cost(call_us=call_us, share=call_us / 1000.0)
    known = {"rule": code.lower(), "severity": "warning", "message": code, "count": 1, "cost": cost}
    place = Location(file="model.py", line=1, function="forward", origin="user")
    return Finding(**{"code": code, "location": place, "fingerprint": "0" * 16, **known, **values})


def ordered(*findings: Finding, guards: Guards | None = None) -> list[str]:
    return [found.code for found in reasons(diagnosed(guards=guards).replace(findings=findings), KERNELS)]


def test_what_takes_most_of_a_call_comes_first() -> None:
    library = finding("GD503", severity="info")
    assert ordered(finding("GD101", call_us=80.0), finding("GD505", call_us=130.0), library) == [
        "GD503",
        "GD505",
        "GD101",
    ]


def test_guard_checks_stand_where_their_share_puts_them() -> None:
    guards = Guards(call_us=1000.0, checks_us=100.0, share=0.1)
    found = finding("GD301"), finding("GD101", call_us=80.0), finding("GD107", call_us=120.0)
    assert ordered(*found, guards=guards) == ["GD107", "GD301", "GD101"]


def test_what_runs_eagerly_comes_before_what_may_cost_nothing() -> None:
    skipped = finding("GD111", effects=Effects(skipped_frames=("forward",)))
    compiling = finding("GD202").replace(cost=Cost(compile_s=2.0))
    assert ordered(compiling, finding("GD504", severity="info"), skipped, finding("GD402", call_us=30.0)) == [
        "GD402",
        "GD111",
        "GD504",
        "GD202",
    ]


def test_what_nobody_can_see_in_the_time_of_a_call_is_no_reason() -> None:
    assert ordered(finding("GD101", call_us=5.0), finding("GD904"), finding("GD102", call_us=11.0)) == ["GD102"]


def test_five_are_enough() -> None:
    found = ordered(*(finding(f"GD10{number}", call_us=100.0 + number) for number in range(8)))
    assert found == ["GD107", "GD106", "GD105", "GD104", "GD103"]
    assert len(found) == MOST


def test_what_only_makes_the_start_longer_is_no_reason() -> None:
    assert ordered(finding("GD401", severity="info"), finding("GD101", call_us=80.0)) == ["GD101"]
