"""The gate's verdict on one target, on diagnoses built by hand."""

from __future__ import annotations

from graphdoctor.facts.check import BaselineEntry, CheckReport
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.diagnosis import Effects
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Call, CallError, CaptureGap, CompileSwitch, Environment
from graphdoctor.facts.run import ProbeExit
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.gate.baseline import Baseline, entries_of, run_of
from graphdoctor.rules.gate.check import Policy, check_target
from graphdoctor.rules.gate.ignores import read_comments
from tests.each import for_each
from tests.factories import compiled, frame
from tests.gate.diagnoses import with_prints

CLEAN = with_prints()
ONE = with_prints((5, "a"))


def checked(diagnosis, *, comments=None, known=None, torch="2.13.0", **policy):
    baseline = None if known is None else Baseline(targets={"m": {torch: entries_of(known.findings)}})
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


def with_effects(*effects, skipped=(), rest_eager=(), **facts):
    """``ONE`` with other effects of its print."""
    changed = Effects(skipped_frames=skipped, rest_eager_frames=rest_eager)
    diagnosis = with_prints((5, "a"), **facts)
    (finding,) = diagnosis.findings
    worse = finding.model_copy(update={"break_effects": effects, "effects": changed})
    return diagnosis.model_copy(update={"findings": (worse,)})


def checked_against(known, diagnosis, **policy):
    """A verdict with a baseline that holds what its run measured too."""
    baseline = Baseline(targets={"m": {"2.13.0": entries_of(known.findings)}}, runs={"m": {"2.13.0": run_of(known)}})
    return check_target(diagnosis, name="m", target="model.py", comments={}, policy=Policy(baseline=baseline, **policy))


RESUMED, REST = with_effects("resumed"), with_effects("rest_eager", rest_eager=("Net.forward",))
SKIPPED = with_effects("frame_skipped", skipped=("Net.forward",))
MORE_SKIPPED = with_effects("frame_skipped", skipped=("Net.forward", "main"))


@for_each(
    "known, now, is_worse",
    [
        (RESUMED, RESUMED, False),
        (RESUMED, REST, True),
        (REST, SKIPPED, True),
        (SKIPPED, MORE_SKIPPED, True),
        (SKIPPED, REST, False),
        (MORE_SKIPPED, RESUMED, False),
        (REST, with_effects("rest_eager", rest_eager=("Net.forward", "main")), True),
        (RESUMED, with_effects("resumed", "frame_skipped", skipped=("main",)), True),
        (RESUMED, with_effects("raised"), True),
    ],
)
def test_a_known_finding_with_worse_effects_fails(known, now, is_worse):
    verdict = checked_against(known, now)
    assert (verdict.state, len(verdict.known)) == ("failed" if is_worse else "passed", 1)
    assert [worse.before.break_effects for worse in verdict.worse] == (
        [known.findings[0].break_effects] if is_worse else []
    )


def test_worse_effects_fail_by_the_severity_of_their_finding():
    assert checked_against(RESUMED, SKIPPED, fail_on="error").state == "passed"
    assert checked_against(RESUMED, SKIPPED, fail_on="never").state == "passed"
    assert len(checked_against(RESUMED, SKIPPED, fail_on="never").worse) == 1


def test_a_baseline_of_the_first_version_has_no_effects_and_says_what_it_lacks():
    old = Baseline(targets={"m": {"2.13.0": (read_fact(BaselineEntry, old_entry(RESUMED)),)}})
    verdict = check_target(SKIPPED, name="m", target="model.py", comments={}, policy=Policy(baseline=old))
    assert (verdict.state, verdict.worse, verdict.lacks_run) == ("passed", (), True)
    assert checked_against(RESUMED, RESUMED).lacks_run is False
    assert checked(RESUMED).lacks_run is False


def old_entry(diagnosis):
    (entry,) = entries_of(diagnosis.findings)
    names = ("fingerprint", "code", "file", "function", "text", "count", "message")
    return {name: getattr(entry, name) for name in names}


def run_with(**facts):
    """``ONE`` with other facts of the recording."""
    return with_prints((5, "a"), **facts)


def ops(graph_ops, eager_ops):
    return run_with(coverage=Coverage(graph_ops=graph_ops, eager_ops=eager_ops, extra_calls=1, extra_compiles=0))


@for_each(
    "known, now, is_lost",
    [
        (ops(8, 2), ops(8, 2), False),
        (ops(8, 2), ops(0, 10), True),
        (ops(8, 2), ops(7, 3), True),
        (ops(990, 10), ops(985, 15), False),
        (ops(990, 10), ops(979, 21), True),
        (ops(8, 2), ops(3, 2), False),
        (ops(8, 2), ops(9, 1), False),
        (ops(8, 2), run_with(coverage=None), True),
        (run_with(coverage=None), ops(0, 10), False),
        (ops(0, 0), ops(0, 4), False),
        (ops(8, 2), ops(0, 0), False),
    ],
)
def test_more_eager_operations_are_worse_beyond_noise(known, now, is_lost):
    verdict = checked_against(known, now)
    assert (verdict.state, verdict.has_lost_coverage) == ("failed" if is_lost else "passed", is_lost)


def test_a_limit_of_coverage_stands_in_for_the_coverage_of_the_baseline():
    assert checked_against(ops(8, 2), ops(6, 4), limits={"min-coverage": 0.5}).state == "passed"
    assert checked_against(ops(8, 2), ops(6, 4), limits={"min-coverage": 0.7}).state == "failed"
    assert checked_against(ops(8, 2), ops(6, 4), fail_on="never").state == "passed"


def test_a_function_that_runs_eagerly_now_is_worse_though_no_finding_names_it():
    def eager(outcome):
        return run_with(
            frames=(frame(), frame(1, function="helper")), compiles=(compiled(), compiled("1/0", outcome=outcome))
        )

    verdict = checked_against(eager("compiled"), eager("skipped"))
    assert (verdict.state, verdict.newly_eager) == ("failed", ("Net.helper",))
    assert checked_against(eager("skipped"), eager("skipped")).newly_eager == ()
    assert checked_against(eager("limit"), eager("skipped")).newly_eager == ()
    assert checked_against(eager("compiled"), eager("limit"), fail_on="never").state == "passed"


def test_a_function_that_a_new_finding_names_is_not_reported_twice():
    one = with_effects("frame_skipped", skipped=("Net.forward",), compiles=(compiled("0/0", outcome="skipped"),))
    verdict = checked_against(CLEAN, one)
    assert (len(verdict.new), verdict.newly_eager) == (1, ())


NOTHING = {"graphs": (), "coverage": covered(0), "compiles": (), "frames": ()}


def test_a_target_that_compiles_nothing_is_never_green():
    assert checked(with_prints(**NOTHING)).state == "failed"
    verdict = checked_against(ONE, with_prints(**NOTHING))
    assert (verdict.state, len(verdict.fixed)) == ("failed", 1)
    assert "Nothing was compiled: no graph reached the backend; the baseline has 1 graph." in (verdict.error or "")
    assert checked_against(ONE, with_prints(**NOTHING), fail_on="never").state == "failed"


def test_a_baseline_without_graphs_allows_a_target_without_graphs():
    assert checked_against(with_prints(**NOTHING), with_prints(**NOTHING)).state == "passed"


def test_findings_say_why_there_is_no_graph_where_nothing_else_is_known():
    assert checked(with_prints((5, "a"), **NOTHING), known=ONE).state == "passed"
    assert checked_against(ONE, with_prints((5, "a"), **NOTHING)).state == "failed"


@for_each(
    "switch, facts, error",
    [
        (CompileSwitch(kind="environment", value="TORCH_COMPILE_DISABLE"), NOTHING, "TORCH_COMPILE_DISABLE is set."),
        (CompileSwitch(kind="config", value="torch._dynamo.config.disable"), NOTHING, "config.disable is True."),
        (CompileSwitch(kind="stance", value="force_eager"), NOTHING, 'set_stance("force_eager") is in effect.'),
        (CompileSwitch(kind="stance", value="force_eager", call_index=2), {}, "is in effect from call 2 on."),
        (CompileSwitch(kind="stance", value="eager_then_compile"), NOTHING, "compiled nothing: torch.compiler.set_sta"),
        (CompileSwitch(kind="replacement", value="<lambda> (m.py:2)"), NOTHING, "<lambda> (m.py:2) replaced"),
    ],
)
def test_where_torch_compile_was_off_nothing_can_be_judged(switch, facts, error):
    verdict = checked_against(ONE, with_prints(switches=(switch,), **facts), fail_on="never")
    assert verdict.state == "crashed"
    assert error in (verdict.error or "")
    assert verdict.hint


@for_each("kind", ["stance", "replacement"])
def test_a_switch_that_may_compile_and_did_is_judged(kind):
    switch = CompileSwitch(kind=kind, value="eager_then_compile")
    assert checked(with_prints(switches=(switch,))).state == "passed"


@for_each(
    "severity, fail_on, state",
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


@for_each(
    "name, limit, state, value",
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


@for_each(
    "facts, error",
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
        (
            {"gaps": (CaptureGap(code="GD902", kind="unreadable_record", message="2 records are unread."),)},
            "2 records",
        ),
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


@for_each("states, code", [([], 0), (["passed"], 0), (["passed", "failed"], 1), (["failed", "crashed"], 2)])
def test_the_exit_code_is_that_of_the_worst_target(states, code):
    targets = tuple(checked(CLEAN).model_copy(update={"state": state}) for state in states)
    assert CheckReport(graphdoctor_version="1", targets=targets).exit_code == code
