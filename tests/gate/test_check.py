"""The gate's verdict on one target, on diagnoses built by hand."""

from __future__ import annotations

import pytest

from graphdoctor.diagnosis.selection import Selection
from graphdoctor.gate.baseline import Baseline, entries_of
from graphdoctor.gate.check import Policy, check_target
from graphdoctor.gate.ignores import read_comments
from graphdoctor.model.check import CheckReport
from graphdoctor.model.recording import Call, CallError, CaptureGap, Coverage, Environment
from graphdoctor.model.run import ProbeExit
from tests.gate.diagnoses import with_prints

CLEAN = with_prints()
ONE = with_prints((5, "a"))


def checked(diagnosis, *, comments=None, known=None, torch="2.13.0", **policy):
    baseline = None if known is None else Baseline({"m": {torch: entries_of(known.findings)}})
    judged_by = Policy(baseline=baseline, **policy)
    return check_target(diagnosis, name="m", target="model.py", comments=comments or {}, policy=judged_by)


def covered(graph_ops):
    return Coverage(graph_ops=graph_ops, eager_ops=10_000 - graph_ops, extra_calls=1, extra_compiles=0)


def refusing(eager="ok", breaks=((5, "a"),)):
    error = CallError(
        type="torch._dynamo.exc.Unsupported", message="x", traceback="", eager=eager, from_compiler=eager == "ok"
    )
    diagnosis = with_prints(
        *breaks,
        calls=(Call(index=1, outcome="error", error=error),),
        exit=ProbeExit(status=1, reason="error", message="Refused.", hint="Look."),
        is_partial=True,
    )
    raised = tuple(found.model_copy(update={"severity": "error"}) for found in diagnosis.findings)
    return diagnosis.model_copy(update={"findings": raised})


def test_without_findings_it_passes_and_with_a_new_one_it_fails():
    assert checked(CLEAN).state == "passed"
    verdict = checked(ONE)
    assert (verdict.state, verdict.failing, verdict.baseline_torch) == ("failed", ONE.findings, None)


def test_what_the_baseline_has_passes_even_when_its_line_moved():
    verdict = checked(with_prints((50, "a")), known=ONE)
    assert (verdict.state, len(verdict.known), verdict.new, verdict.fixed) == ("passed", 1, (), ())
    assert (verdict.baseline_torch, verdict.is_other_torch) == ("2.13.0", False)


def test_new_and_fixed_findings_are_told_apart():
    verdict = checked(with_prints((6, "b")), known=ONE)
    assert verdict.state == "failed"
    assert [finding.location.line for finding in verdict.new] == [6]
    assert [entry.text for entry in verdict.fixed] == ['print("a")']
    assert checked(CLEAN, known=ONE).state == "passed"


def test_a_second_equal_line_is_new():
    verdict = checked(with_prints((5, "a"), (6, "a")), known=ONE)
    assert (verdict.state, len(verdict.known), len(verdict.new)) == ("failed", 1, 1)


def test_what_happens_more_often_is_told_and_does_not_fail():
    (finding,) = ONE.findings
    more = ONE.model_copy(update={"findings": (finding.model_copy(update={"count": 3}),)})
    verdict = checked(more, known=ONE)
    assert (verdict.state, [found.count for found in verdict.grown]) == ("passed", [3])


@pytest.mark.parametrize(
    ("severity", "fail_on", "state"),
    [
        ("warning", "warning", "failed"),
        ("warning", "error", "passed"),
        ("info", "warning", "passed"),
        ("info", "info", "failed"),
        ("error", "never", "passed"),
    ],
)
def test_the_severity_that_fails_is_asked_for(severity, fail_on, state):
    (finding,) = ONE.findings
    diagnosis = ONE.model_copy(update={"findings": (finding.model_copy(update={"severity": severity}),)})
    verdict = checked(diagnosis, fail_on=fail_on)
    assert (verdict.state, len(verdict.new)) == (state, 1)


def test_ignored_findings_do_not_count_and_an_ignored_entry_is_not_fixed():
    comments = read_comments({"model.py": "\n\n\n\nprint()  # graphdoctor: ignore[GD101] why\n"})
    verdict = checked(ONE, comments=comments, known=ONE)
    assert (verdict.state, verdict.new, verdict.known, verdict.fixed) == ("passed", (), (), ())
    assert [(item.by, item.reason) for item in verdict.ignored] == [("comment", "why")]
    narrow = checked(ONE, known=ONE, selection=Selection(select=("GD2",)))
    assert (narrow.state, narrow.fixed, [item.by for item in narrow.ignored]) == ("passed", (), ["setting"])


def test_a_baseline_of_another_torch_is_compared_and_said_so():
    verdict = checked(with_prints((6, "b")), known=ONE, torch="2.12.0")
    assert (verdict.state, verdict.baseline_torch, verdict.is_other_torch) == ("failed", "2.12.0", True)
    tagged = with_prints((5, "a"), environment=Environment(torch="2.12.0+cpu"))
    assert checked(tagged, known=ONE, torch="2.12.0").is_other_torch is False


@pytest.mark.parametrize(
    ("name", "limit", "state", "value"),
    [
        ("max-breaks", 0, "failed", 1),
        ("max-breaks", 1, "passed", 1),
        ("max-graphs", 0, "failed", 1),
        ("max-recompiles", 0, "passed", 0),
        ("min-coverage", 1.0, "passed", 1.0),
    ],
)
def test_budgets_are_on_what_was_measured_known_findings_included(name, limit, state, value):
    verdict = checked(ONE, known=ONE, limits={name: limit})
    assert (verdict.state, [(item.name, item.value) for item in verdict.budgets]) == (state, [(name, value)])


def test_a_budget_keeps_the_exact_values_and_is_not_kept_by_a_hair():
    (budget,) = checked(with_prints(coverage=covered(8996)), limits={"min-coverage": 0.9}).budgets
    assert (budget.limit, budget.value, budget.is_kept) == (0.9, 0.8996, False)
    (budget,) = checked(with_prints(coverage=covered(9000)), limits={"min-coverage": 0.9}).budgets
    assert (budget.value, budget.is_kept) == (0.9, True)


def test_a_coverage_that_is_not_known_keeps_no_budget():
    verdict = checked(with_prints(coverage=None), limits={"min-coverage": 0.0})
    assert (verdict.state, verdict.budgets[0].value, verdict.budgets[0].is_kept) == ("failed", None, False)


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        (
            {"exit": ProbeExit(status=-9, reason="timeout", message="Stopped after 3 s.", hint="Raise --timeout.")},
            "Stopped",
        ),
        ({"exit": ProbeExit(status=-9, reason="killed", message=None)}, "ended early"),
        ({"is_partial": True}, "incomplete"),
        ({"calls": (Call(index=1),)}, "Call 1"),
        ({"calls": ()}, "No call"),
        ({"environment": Environment()}, "which version of torch"),
        ({"gaps": (CaptureGap(code="GD902", message="2 records could not be read."),)}, "2 records"),
    ],
)
def test_what_was_not_run_to_its_end_is_crashed_whatever_allows_it(facts, error):
    diagnosis = with_prints((5, "a"), **facts)
    verdict = checked(diagnosis, known=ONE, fail_on="never")
    assert (verdict.state, verdict.new, verdict.budgets, verdict.diagnosis) == ("crashed", (), (), diagnosis)
    assert error in (verdict.error or "")


def test_a_call_that_torch_refused_is_a_finding_and_never_green():
    verdict = checked(refusing())
    assert (verdict.state, len(verdict.failing)) == ("failed", 1)
    assert "refused call 1 (Unsupported)" in (verdict.error or "")
    assert checked(refusing(), known=ONE).state == "failed"


def test_a_call_that_raises_by_itself_or_that_nothing_explains_is_a_crash():
    verdict = checked(refusing(eager="ValueError"))
    assert (verdict.state, verdict.error, verdict.hint) == ("crashed", "Refused.", "Look.")
    assert checked(refusing(breaks=())).state == "crashed"


@pytest.mark.parametrize(
    ("states", "code"), [([], 0), (["passed"], 0), (["passed", "failed"], 1), (["failed", "crashed"], 2)]
)
def test_the_exit_code_is_that_of_the_worst_target(states, code):
    targets = tuple(checked(CLEAN).model_copy(update={"state": state}) for state in states)
    assert CheckReport(graphdoctor_version="1", targets=targets).exit_code == code
