"""The gate's answer as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import CheckReport
from graphdoctor.rules.gate.baseline import Baseline, entries_of
from graphdoctor.rules.gate.check import Policy, check_target, crashed
from graphdoctor.views.check import check_view
from graphdoctor.views.markdown_text import render_view_markdown
from tests.gate.diagnoses import with_prints
from tests.render.check_reports import failed_report, report, worse_report
from tests.views.outputs import on_terminal


def target(diagnosis, *, name="m", known=None, torch="2.13.0", **policy):
    baseline = None if known is None else Baseline(targets={name: {torch: entries_of(known.findings)}})
    judged_by = Policy(baseline=baseline, **policy)
    return check_target(diagnosis, name=name, target="model.py", comments={}, policy=judged_by)


def shown(*targets, is_verbose=False, **facts):
    report = CheckReport(graphdoctor_version="1", targets=targets, **facts)
    return on_terminal(check_view(report), width=100, is_verbose=is_verbose)


@pytest.mark.parametrize("made", [failed_report, worse_report, report], ids=["failed", "worse", "passed"])
def test_a_check_reads_as_it_should(snapshot: SnapshotAssertion, made: Callable[[], CheckReport]):
    view = check_view(made())
    for width, is_verbose in ((80, False), (140, True)):
        assert on_terminal(view, width=width, is_verbose=is_verbose) == snapshot(name=f"{width}")
    assert render_view_markdown(view) == snapshot(name="markdown")


def test_an_upgrade_does_not_say_what_would_lose_findings():
    text = shown(target(with_prints((6, "b")), known=with_prints((5, "a")), torch="2.12.0"), baseline="b.json")
    assert "adds this version to the baseline" in " ".join(text.split())
    assert "removes the fixed findings" not in text


def test_a_target_that_the_baseline_lacks_is_said():
    text = shown(target(with_prints((6, "b"))), baseline="b.json")
    assert "has no entry for this target" in text
    assert "accepts the current findings" not in text


def test_a_crash_says_what_to_do():
    error, hint = "There is no file x.py.", "Did you mean y.py?"
    end = crashed(name="m", target="x.py", error=error, hint=hint, diagnosis=None, policy=Policy())
    assert error in shown(end)
    assert hint in shown(end)


def test_a_coverage_that_is_not_known_is_not_said_to_be_0():
    assert "0%" not in shown(target(with_prints(coverage=None), limits={"min-coverage": 0.5})).replace("50%", "")


def test_findings_below_the_limit_are_shown_when_asked_for():
    (finding,) = with_prints((5, "a")).findings
    low = with_prints((5, "a")).model_copy(update={"findings": (finding.model_copy(update={"severity": "info"}),)})
    assert "1 below warning" in " ".join(shown(target(low)).split())
    assert "model.py:5" not in shown(target(low))
    assert "model.py:5" in shown(target(low), is_verbose=True)
