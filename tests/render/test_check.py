"""The gate's answer as text."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from graphdoctor.facts.check import CheckReport, UnusedIgnore
from graphdoctor.rules.gate.baseline import Baseline, entries_of
from graphdoctor.rules.gate.check import Policy, check_target, crashed
from graphdoctor.views.check import render_check
from tests.gate.diagnoses import with_prints


def target(diagnosis, *, name="m", known=None, torch="2.13.0", **policy):
    baseline = None if known is None else Baseline({name: {torch: entries_of(known.findings)}})
    judged_by = Policy(baseline=baseline, **policy)
    return check_target(diagnosis, name=name, target="model.py", comments={}, policy=judged_by)


def shown(*targets, is_verbose=False, **facts):
    buffer = StringIO()
    report = CheckReport(graphdoctor_version="1", targets=targets, **facts)
    render_check(report, Console(file=buffer, width=100, color_system=None), is_verbose=is_verbose)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def test_a_green_answer_is_two_lines_a_target():
    assert shown(target(with_prints())) == "passed  m  1 graph, 0 break sites, coverage 100%\n1 target passed."


def test_a_red_answer_shows_each_new_finding_with_its_line_and_the_known_ones_as_a_count():
    known = with_prints((5, "a"))
    text = shown(target(with_prints((5, "a"), (6, "b")), known=known, limits={"max-breaks": 1}), baseline="b.json")
    assert "failed  m  1 new finding, max-breaks: 2, must be at most 1, 1 known" in text
    assert "--> model.py:6 in Net.forward" in text
    assert "model.py:5" not in text
    assert text.endswith("1 target failed.")


def test_an_upgrade_is_said_with_what_to_do():
    text = shown(target(with_prints((6, "b")), known=with_prints((5, "a")), torch="2.12.0"), baseline="b.json")
    text = " ".join(text.split())
    assert "compared with the baseline for torch 2.12.0; this run uses torch 2.13.0" in text
    assert "so new and fixed findings may come from the upgrade" in text
    assert "graphdoctor baseline --update adds this version to the baseline" in text
    assert "removes the fixed findings" not in text


def test_a_target_that_the_baseline_lacks_is_said():
    text = shown(target(with_prints((6, "b"))), baseline="b.json")
    assert "baseline  has no entry for this target" in text
    assert "graphdoctor baseline writes" not in text


def test_a_crash_says_why_and_what_to_do_and_that_nothing_is_known():
    end = crashed(
        name="m",
        target="x.py",
        error="There is no file x.py.",
        hint="Did you mean y.py?",
        diagnosis=None,
        policy=Policy(),
    )
    text = shown(end)
    assert "crashed  m  There is no file x.py." in text
    assert "Did you mean y.py?" in text
    assert "1 target crashed (results unknown)." in text


def test_a_coverage_that_is_not_known_is_not_said_to_be_0():
    text = shown(target(with_prints(coverage=None), limits={"min-coverage": 0.5}))
    assert "min-coverage: unknown, must be at least 50%" in text
    assert "coverage unknown" in text


def test_what_was_not_run_and_what_is_unused_is_told():
    unused = (
        UnusedIgnore(file="a.py", line=3, codes=("GD1",)),
        UnusedIgnore(file="p", codes=("GD2",), why="'x' has none"),
    )
    text = shown(skipped=("encoder",), unused_ignores=unused)
    assert "skipped  encoder" in text
    assert "unused  a.py:3  ignore[GD1] matches no finding" in text
    assert "No targets ran: 1 target skipped." in text


def test_everything_is_shown_when_asked_for():
    (finding,) = with_prints((5, "a")).findings
    low = with_prints((5, "a")).model_copy(update={"findings": (finding.model_copy(update={"severity": "info"}),)})
    assert "1 new below warning" in shown(target(low))
    assert "model.py:5" not in shown(target(low))
    assert "model.py:5" in shown(target(low), is_verbose=True)


def test_what_comes_from_outside_cannot_steer_the_terminal():
    text = shown(target(with_prints(), name="[red]\x1b[2J"))
    assert "[red]" in text
    assert "\x1b" not in text
