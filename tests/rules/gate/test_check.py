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
from tests.rules.gate.diagnoses import with_prints

CLEAN = with_prints()
ONE = with_prints((5, "a"))


def judged(diagnosis, baseline=None, comments=None, **policy):
    policy = Policy(baseline=baseline, **policy)
    return check_target(
        diagnosis, name="m", target="model.py", comments=comments or {}, policy=policy
    )


def checked(diagnosis, *, known=None, torch="2.13.0", **given):
    """A verdict with a baseline of findings alone."""
    entries = (
        None if known is None else Baseline(targets={"m": {torch: entries_of(known.findings)}})
    )
    return judged(diagnosis, entries, **given)


def against(known, diagnosis, **given):
    """A verdict with a baseline that holds what its run measured too."""
    baseline = Baseline(
        targets={"m": {"2.13.0": entries_of(known.findings)}}, runs={"m": {"2.13.0": run_of(known)}}
    )
    return judged(diagnosis, baseline, **given)


def said(verdict):
    """What a verdict has, a line for each kind."""
    facts = {
        "new": [f"{found.code} {found.severity} {found.location.line}" for found in verdict.new],
        "known": [found.location.line for found in verdict.known],
        "grown": [found.count for found in verdict.grown],
        "worse than": [
            worse.before.count if worse.is_rise else worse.before.break_effects
            for worse in verdict.worse
        ],
        "fixed": [entry.text for entry in verdict.fixed],
        "newly eager": verdict.newly_eager,
        "coverage lost": verdict.has_lost_coverage,
        "ignored": [(item.by, item.reason) for item in verdict.ignored],
        "budgets": [(item.name, item.limit, item.value, item.is_kept) for item in verdict.budgets],
        "baseline": (verdict.baseline_torch, "another torch") if verdict.is_other_torch else (),
        "lacks a run": verdict.lacks_run,
        "error": verdict.error,
        "hint": verdict.hint,
    }
    yield verdict.state
    yield from (f"    {name}: {value}" for name, value in facts.items() if value)


def changed(diagnosis, **values):
    """The diagnosis with its only finding changed."""
    (finding,) = diagnosis.findings
    return diagnosis.replace(findings=(finding.replace(**values),))


def in_calls(count):
    """``ONE`` with so many calls."""
    return ONE.replace(summary=ONE.summary.replace(calls=count * ONE.summary.calls))


def risen(known):
    """A baseline whose only entry may happen any number of times."""
    return Baseline(
        targets={
            "m": {"2.13.0": [entry.replace(may_rise=True) for entry in entries_of(known.findings)]}
        }
    )


def with_effects(*effects, skipped=(), rest_eager=(), **facts):
    """``ONE`` with other effects of its print."""
    both = Effects(skipped_frames=skipped, rest_eager_frames=rest_eager)
    return changed(with_prints((5, "a"), **facts), break_effects=effects, effects=both)


def ops(graph_ops, eager_ops, *breaks):
    return with_prints(
        *breaks or ((5, "a"),), coverage=Coverage(graph_ops=graph_ops, eager_ops=eager_ops)
    )


def eager(outcome):
    return with_prints(
        (5, "a"),
        frames=(frame(), frame(1, function="helper")),
        compiles=(compiled(), compiled("1/0", outcome=outcome)),
    )


def refusing(eager="ok", breaks=((5, "a"),)):
    error = CallError(
        type="torch._dynamo.exc.Unsupported",
        message="x",
        traceback="",
        eager=eager,
        from_compiler=eager == "ok",
    )
    diagnosis = with_prints(
        *breaks,
        calls=(Call(index=1, outcome="error", error=error),),
        exit=ProbeExit(status=1, reason="error", message="Refused.", hint="Look."),
        is_partial=True,
    )
    return diagnosis.replace(
        findings=tuple(found.replace(severity="error") for found in diagnosis.findings)
    )


def old_entry(diagnosis):
    """As schema version 1.0 has it."""
    (entry,) = entries_of(diagnosis.findings)
    names = ("fingerprint", "code", "file", "function", "text", "count", "message")
    return read_fact(BaselineEntry, {name: getattr(entry, name) for name in names})


RESUMED, REST = with_effects("resumed"), with_effects("rest_eager", rest_eager=("Net.forward",))
SKIPPED = with_effects("frame_skipped", skipped=("Net.forward",))
MORE_SKIPPED = with_effects("frame_skipped", skipped=("Net.forward", "main"))
UNKNOWN = with_prints((5, "a"), coverage=None)
NONE_COVERED = Coverage(graph_ops=0, eager_ops=10_000)
NOTHING = {"graphs": (), "coverage": NONE_COVERED, "compiles": (), "frames": ()}
EMPTY, EMPTY_BUT_ONE = with_prints(**NOTHING), with_prints((5, "a"), **NOTHING)
IGNORE = read_comments({"model.py": "\n\n\n\nprint()  # graphdoctor: ignore[GD101] why\n"})
OLD = Baseline(targets={"m": {"2.13.0": (old_entry(RESUMED),)}})
STANCE = {"kind": "stance", "value": "force_eager"}
OFF = [
    ({"kind": "environment", "value": "TORCH_COMPILE_DISABLE"}, NOTHING),
    ({"kind": "config", "value": "torch._dynamo.config.disable"}, NOTHING),
    (STANCE, NOTHING),
    (STANCE | {"call_index": 2}, {}),
    ({"kind": "stance", "value": "eager_then_compile"}, NOTHING),
    ({"kind": "replacement", "value": "<lambda> (m.py:2)"}, NOTHING),
]

SEVERITIES = (
    ("warning", "warning"),
    ("warning", "error"),
    ("info", "warning"),
    ("info", "info"),
    ("error", "never"),
)
LIMITS = (
    ("max-breaks", 0),
    ("max-breaks", 1),
    ("max-graphs", 0),
    ("max-recompiles", 0),
    ("min-coverage", 1.0),
)

VERDICTS = {
    "without findings": checked(CLEAN),
    "a new finding": checked(ONE),
    "a known one whose line moved": checked(with_prints((50, "a")), known=ONE),
    "new and fixed": checked(with_prints((6, "b")), known=ONE),
    "fixed": checked(CLEAN, known=ONE),
    "what happens more often": checked(changed(ONE, count=3), known=ONE),
    "the same effects": against(RESUMED, RESUMED),
    "worse: the rest is eager": against(RESUMED, REST),
    "worse: more is skipped": against(SKIPPED, MORE_SKIPPED),
    "better: not skipped": against(SKIPPED, REST),
    "worse: raised": against(RESUMED, with_effects("raised")),
    "worse, but below what fails": against(RESUMED, SKIPPED, fail_on="error"),
    "worse, and nothing fails": against(RESUMED, SKIPPED, fail_on="never"),
    "a baseline of the first version": judged(SKIPPED, OLD),
    "no run in a baseline of this one": checked(RESUMED),
    "the same coverage": against(ops(8, 2), ops(8, 2)),
    "no coverage left": against(ops(8, 2), ops(0, 10)),
    "less coverage": against(ops(8, 2), ops(7, 3)),
    "less, beyond noise": against(ops(990, 10), ops(979, 21)),
    "a smaller graph": against(ops(8, 2), ops(3, 2)),
    "unknown coverage": against(ops(8, 2), UNKNOWN),
    "a limit instead, not kept": against(ops(8, 2), ops(6, 4), limits={"min-coverage": 0.7}),
    "a function that is eager now": against(eager("compiled"), eager("skipped")),
    "eager as before": against(eager("skipped"), eager("skipped")),
    "eager, as a new finding says": against(
        CLEAN,
        with_effects(
            "frame_skipped", skipped=("Net.forward",), compiles=(compiled(outcome="skipped"),)
        ),
    ),
    "nothing compiled": checked(EMPTY),
    "nothing compiled any more": against(ONE, EMPTY, fail_on="never"),
    "nothing compiled any more, as a finding says": against(ONE, EMPTY_BUT_ONE),
    **{
        f"off: {switch}": against(
            ONE, with_prints(switches=(CompileSwitch(**switch),), **facts), fail_on="never"
        )
        for switch, facts in OFF
    },
    **{
        f"on in spite of a {kind}": checked(
            with_prints(switches=(CompileSwitch(kind=kind, value="x"),))
        )
        for kind in ("stance", "replacement")
    },
    **{
        f"{severity} with fail-on {fail_on}": checked(
            changed(ONE, severity=severity), fail_on=fail_on
        )
        for severity, fail_on in SEVERITIES
    },
    "ten times as often": checked(changed(ONE, count=10), known=ONE),
    "ten times as often, in ten times the calls": against(ONE, changed(in_calls(10), count=10)),
    "a hundred times as often, in ten times the calls": against(
        ONE, changed(in_calls(10), count=100)
    ),
    "ten times as often, as the baseline allows": judged(changed(ONE, count=10), risen(ONE)),
    "ignored by a comment": checked(ONE, comments=IGNORE, known=ONE),
    "not selected": checked(ONE, known=ONE, selection=Selection(select=("GD2",))),
    "a baseline of another torch": checked(with_prints((6, "b")), known=ONE, torch="2.12.0"),
    **{
        f"{name} of {limit}": checked(ONE, known=ONE, limits={name: limit})
        for name, limit in LIMITS
    },
    "not kept by a hair": checked(ops(8996, 1004), known=ONE, limits={"min-coverage": 0.9}),
    "just kept": checked(ops(9000, 1000), known=ONE, limits={"min-coverage": 0.9}),
    "a budget for what is unknown": checked(UNKNOWN, known=ONE, limits={"min-coverage": 0.0}),
    "a refused call": checked(refusing()),
    "a call that raises by itself": checked(refusing(eager="ValueError")),
    "a refused call that nothing explains": checked(refusing(breaks=())),
}


def test_verdicts(snapshot):
    lines = []
    for name, verdict in VERDICTS.items():
        state, *rest = said(verdict)
        lines += [f"{name}: {state}", *rest]
    assert "\n".join(lines) == snapshot


@for_each(
    "facts, error",
    [
        (
            {
                "exit": ProbeExit(
                    status=-9,
                    reason="timeout",
                    message="Stopped after 3 s.",
                    hint="Raise --timeout.",
                )
            },
            "Stopped",
        ),
        ({"exit": ProbeExit(status=-9, reason="killed", message=None)}, "ended early"),
        ({"is_partial": True}, "incomplete"),
        ({"calls": (Call(index=1),)}, "Call 1"),
        ({"calls": ()}, "No call"),
        ({"environment": Environment()}, "which version of torch"),
        (
            {
                "gaps": (
                    CaptureGap(code="GD902", kind="unreadable_record", message="2 are unread."),
                )
            },
            "2 are unread",
        ),
    ],
)
def test_unfinished_run_is_crashed_whatever_allows_it(facts, error):
    diagnosis = with_prints((5, "a"), **facts)
    verdict = checked(diagnosis, known=ONE, fail_on="never")
    assert (verdict.state, verdict.new, verdict.budgets, verdict.diagnosis) == (
        "crashed",
        (),
        (),
        diagnosis,
    )
    assert error in (verdict.error or "")


@for_each(
    "states, code",
    [([], 0), (["passed"], 0), (["passed", "failed"], 1), (["failed", "crashed"], 2)],
)
def test_the_exit_code_is_that_of_the_worst_target(states, code):
    targets = tuple(checked(CLEAN).replace(state=state) for state in states)
    assert CheckReport(graphdoctor_version="1", targets=targets).exit_code == code


def little_compiled(share):
    """A clean run of which so much is in graphs."""
    return CLEAN.replace(summary=CLEAN.summary.replace(coverage=share))


@for_each(
    "share, policy, state",
    [
        (0.13, {}, "failed"),
        (0.49, {"limits": {"max-breaks": 0}}, "failed"),
        (0.13, {"limits": {"min-coverage": 0.1}}, "passed"),
        (0.13, {"fail_on": "never"}, "passed"),
        (0.5, {}, "passed"),
    ],
)
def test_less_than_half_compiled_needs_a_limit(share, policy, state):
    verdict = judged(little_compiled(share), **policy)
    assert verdict.state == state
    assert [budget.is_default for budget in verdict.budgets if not budget.is_kept] == [True] * (
        state == "failed"
    )


def test_a_baseline_allows_less_than_half():
    assert against(little_compiled(0.13), little_compiled(0.13)).state == "passed"
