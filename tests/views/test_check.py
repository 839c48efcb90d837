"""The gate's answer as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import CheckReport, TargetCheck
from graphdoctor.rules.gate.baseline import Baseline, entries_of
from graphdoctor.rules.gate.check import Policy, check_target
from graphdoctor.views.check import check_view
from tests.rules.gate.diagnoses import with_prints
from tests.views.check_reports import failed_report, report, worse_report
from tests.views.outputs import on_terminal


def target(diagnosis, *, name="m", known=None, torch="2.13.0", **policy):
    baseline = (
        None if known is None else Baseline(targets={name: {torch: entries_of(known.findings)}})
    )
    judged_by = Policy(baseline=baseline, **policy)
    return check_target(diagnosis, name=name, target="model.py", comments={}, policy=judged_by)


def shown(*targets, is_verbose=False, **facts):
    report = CheckReport(graphdoctor_version="1", targets=targets, **facts)
    return on_terminal(check_view(report), width=100, is_verbose=is_verbose)


@pytest.mark.parametrize(
    "made", [failed_report, worse_report, report], ids=["failed", "worse", "passed"]
)
def test_a_check_reads_as_it_should(snapshot: SnapshotAssertion, made: Callable[[], CheckReport]):
    assert on_terminal(check_view(made()), width=100, is_verbose=True) == snapshot


def test_the_verdict_names_what_decided_it():
    accepted, risen = with_prints((5, "a")), with_prints((5, "a"))
    (found,) = risen.findings
    risen = risen.replace(findings=(found.replace(count=30),))
    text = shown(target(risen, known=accepted), variables=("GRAPHDOCTOR_IGNORE=GD3",))
    assert "1 target failed, judged with GRAPHDOCTOR_IGNORE=GD3." in text
    assert "it happens 30 times; in the baseline once." in text
    assert "1 known under torch 2.11.0" in " ".join(
        shown(target(accepted, known=accepted, torch="2.11.0")).split()
    )


def low():
    (finding,) = with_prints((5, "a")).findings
    return with_prints((5, "a")).replace(findings=(finding.replace(severity="info"),))


def test_what_there_is_to_do_is_said(snapshot: SnapshotAssertion):
    upgraded = target(with_prints((6, "b")), known=with_prints((5, "a")), torch="2.12.0")
    assert shown(upgraded, baseline="b.json") == snapshot(name="an upgrade")
    assert shown(target(with_prints((6, "b"))), baseline="b.json") == snapshot(
        name="a target that the baseline lacks"
    )
    failed = {"error": "There is no file x.py.", "hint": "Did you mean y.py?", "fail_on": "warning"}
    assert shown(TargetCheck(name="m", target="x.py", state="crashed", **failed)) == snapshot(
        name="a crash"
    )
    unknown = target(with_prints(coverage=None), limits={"min-coverage": 0.5})
    assert shown(unknown) == snapshot(name="an unknown coverage")
    for is_verbose in (False, True):
        assert shown(target(low()), is_verbose=is_verbose) == snapshot(
            name=f"below the limit, {is_verbose}"
        )
