"""Judges one target. Comes in: its diagnosis and a policy (baseline, ignores, budgets). Goes out: a
``TargetCheck``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphdoctor.facts.check import (
    LEAST_COVERAGE,
    BaselineEntry,
    BaselineRun,
    Budget,
    BudgetName,
    Ignored,
    TargetCheck,
    WorseFinding,
)
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.recording import Call, CaptureGap, CompileSwitch, GapKind
from graphdoctor.facts.spec import FailOn
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.gate.baseline import EFFECTS, Baseline, release, run_of
from graphdoctor.rules.gate.ignores import Comments, PathIgnore, ignored_by
from graphdoctor.wording import counted, switch_text

_ON_AGAIN = "Run it with torch.compile on: what isn't compiled can't be judged."
_INCOMPLETE: tuple[GapKind, ...] = (
    "unrecorded_compile",
    "log_damage",
    "log_cut",
    "log_beginning",
    "log_removed",
    "unreadable_record",
    "unfinished_compile",
)
_NOISE = 0.01
"""A share: coverage that falls by no more than this hasn't fallen."""
_RISE = 10
"""Factor by which a known finding happens more often that is no longer the one that was
accepted."""

Limits = Mapping[BudgetName, float]
"""The configured limits."""


@dataclass(frozen=True)
class Policy:
    """Criteria of a target's verdict.

    Args:
        fail_on: The lowest severity of a new finding that fails the target.
        limits: Its budgets.
        selection: The findings that count.
        paths: ``per-path-ignores``.
        baseline: Known findings; None to allow none.
    """

    fail_on: FailOn = "warning"
    limits: Limits = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    paths: Sequence[PathIgnore] = ()
    baseline: Baseline | None = None


def check_target(
    diagnosis: Diagnosis, *, name: str, target: str, comments: Comments, policy: Policy
) -> TargetCheck:
    """Judge one target."""
    verdict = TargetCheck(
        name=name, target=target, state="passed", diagnosis=diagnosis, fail_on=policy.fail_on
    )
    trouble = trouble_of(diagnosis)
    if (error := trouble or _off_text(diagnosis)) is not None:
        hint = diagnosis.recording.exit.hint if trouble else _ON_AGAIN
        return verdict.replace(state="crashed", error=error, hint=hint)
    counting, ignored = sort_findings(diagnosis, comments, policy)
    version = release(diagnosis.recording.environment.torch or "")
    compared = policy.baseline.entries(name, version) if policy.baseline else None
    entries = {entry.fingerprint: entry for entry in compared[1]} if compared else {}
    new = tuple(finding for finding in counting if finding.fingerprint not in entries)
    known = [
        (finding, entries[finding.fingerprint])
        for finding in counting
        if finding.fingerprint in entries
    ]
    before = known_run(policy.baseline, name, diagnosis)
    more_calls = diagnosis.summary.calls / before.calls if before and before.calls else 1
    worse = tuple(
        WorseFinding(finding=finding, before=entry, is_rise=not is_harm)
        for finding, entry in known
        if (is_harm := _does_more_harm(finding, entry))
        or (finding.count >= entry.count * _RISE * max(more_calls, 1) and not entry.may_rise)
    )
    explained = [*new, *(item.finding for item in worse), *(item.finding for item in ignored)]
    # An entry whose finding is now ignored isn't fixed.
    present = {finding.fingerprint for finding in diagnosis.findings}
    allows_less = before is not None or policy.fail_on == "never"
    verdict = verdict.replace(
        error=_refusal_text(diagnosis) or empty_text(diagnosis, before),
        new=new,
        known=tuple(finding for finding, _ in known),
        grown=tuple(finding for finding, entry in known if finding.count > entry.count),
        worse=worse,
        newly_eager=_newly_eager(diagnosis, before, explained) if before else (),
        # A limit of its own says how much may run eagerly.
        has_lost_coverage=before is not None
        and "min-coverage" not in policy.limits
        and _has_lost_coverage(diagnosis, before),
        baseline_run=before,
        fixed=tuple(entry for entry in entries.values() if entry.fingerprint not in present),
        ignored=ignored,
        budgets=_budgets(policy.limits, diagnosis, allows_less=allows_less),
        baseline_torch=compared[0] if compared else None,
        is_other_torch=compared is not None and compared[0] != version,
    )
    is_worse = verdict.failing or verdict.failing_worse or verdict.is_more_eager
    is_kept = all(budget.is_kept for budget in verdict.budgets)
    has_passed = verdict.error is None and not is_worse and is_kept
    return verdict if has_passed else verdict.replace(state="failed")


def sort_findings(
    diagnosis: Diagnosis, comments: Comments, policy: Policy
) -> tuple[tuple[Finding, ...], tuple[Ignored, ...]]:
    """Return the findings that count, worst first, and those that are ignored, each with its
    reason.
    """
    counting, ignored = [], []
    for finding in diagnosis.findings:
        reason = ignored_by(
            finding, comments=comments, paths=policy.paths, selection=policy.selection
        )
        if reason is None:
            counting.append(finding)
        else:
            ignored.append(reason)
    return tuple(counting), tuple(ignored)


def trouble_of(diagnosis: Diagnosis) -> str | None:
    """Return why the gate can't rely on a run, in a sentence; None when it can.

    A call that torch.compile itself refused (``fullgraph``, a backend) is a reliable result if a
    finding explains it.
    """
    recording, gap = diagnosis.recording, missing_records(diagnosis)
    if (refusal := _refusal_text(diagnosis)) is not None:
        is_explained = any(finding.severity == "error" for finding in diagnosis.findings)
        return None if is_explained else refusal
    if recording.exit.reason != "finished":
        return recording.exit.message or "The run ended early."
    for call in recording.calls:
        if call.outcome != "ok":
            error = call.error.type if call.error else "it did not finish"
            return f"Call {call.index} failed: {error}."
    if recording.is_partial:
        return "The recording is incomplete: its log is cut off."
    if not recording.calls:
        return "No calls were made."
    if recording.environment.torch is None:
        return "The recording doesn't say which version of torch ran."
    return None if gap is None else gap.message


def refused_call(diagnosis: Diagnosis) -> Call | None:
    """Return the call that torch.compile refused although it works in eager mode, or None."""
    for call in diagnosis.recording.calls:
        error = call.error
        if error is not None and error.from_compiler and error.eager in (None, "ok"):
            return call
    return None


def _refusal_text(diagnosis: Diagnosis) -> str | None:
    call = refused_call(diagnosis)
    if call is None or call.error is None:
        return None
    name = call.error.type.rpartition(".")[2]
    return f"torch.compile refused call {call.index} ({name}); later calls were not made."


def known_run(baseline: Baseline | None, name: str, diagnosis: Diagnosis) -> BaselineRun | None:
    """Return what a baseline says that a target's run measured, under the release that its entries
    are compared for.

    Args:
        baseline: The baseline, or None.
        name: The target's name.
        diagnosis: Of its run.
    """
    if baseline is None:
        return None
    compared = baseline.entries(name, release(diagnosis.recording.environment.torch or ""))
    return baseline.run(name, compared[0]) if compared else None


def missing_records(diagnosis: Diagnosis) -> CaptureGap | None:
    """Return the first gap that means records are missing, so every count may be too low; None if
    none does.
    """
    return diagnosis.recording.gap(*_INCOMPLETE)


def compile_switch(diagnosis: Diagnosis) -> CompileSwitch | None:
    """Return what kept torch.compile from compiling, so that the run shows nothing; None if nothing
    did.

    What may compile some calls, such as the stance ``eager_then_compile``, counts only if no graph
    was made.
    """
    for switch in diagnosis.recording.switches:
        if switch.is_off or not diagnosis.summary.graphs:
            return switch
    return None


def empty_text(diagnosis: Diagnosis, before: BaselineRun | None) -> str | None:
    """Return why a run that ended well shows nothing, in a sentence; None if it shows something.

    Args:
        diagnosis: Of the run.
        before: What the baseline's run measured; without it, findings that say why there is no
            graph are enough.
    """
    if (off := _off_text(diagnosis)) is not None:
        return off
    has_enough = diagnosis.findings if before is None else not before.graphs
    if diagnosis.summary.graphs or has_enough:
        return None
    known = f"; the baseline has {counted(before.graphs, 'graph')}" if before is not None else ""
    return f"Nothing was compiled: no graph reached the backend{known}."


def _off_text(diagnosis: Diagnosis) -> str | None:
    switch = compile_switch(diagnosis)
    if switch is None:
        return None
    return (
        f"torch.compile {'was off' if switch.is_off else 'compiled nothing'}:"
        f" {switch_text(switch)}."
    )


def _budgets(limits: Limits, diagnosis: Diagnosis, *, allows_less: bool) -> tuple[Budget, ...]:
    """Compare each limit with what was measured, and coverage with the least that passes, unless
    something ``allows_less``.

    Ignored findings and findings in the baseline count too: a budget limits what torch did.
    """
    summary = diagnosis.summary
    values: dict[BudgetName, float | None] = {
        "max-breaks": summary.break_sites,
        "max-recompiles": summary.recompiles,
        "max-graphs": summary.graphs,
        "min-coverage": summary.coverage,
    }
    budgets = []
    for name, value in values.items():
        limit = limits.get(name)
        is_least = name == "min-coverage"
        is_default = limit is None and is_least and not allows_less
        if is_default and value is not None and value < LEAST_COVERAGE:
            limit = LEAST_COVERAGE
        if limit is not None:
            is_kept = value is not None and (value >= limit if is_least else value <= limit)
            budgets.append(
                Budget(name=name, limit=limit, value=value, is_kept=is_kept, is_default=is_default)
            )
    return tuple(budgets)


def _does_more_harm(finding: Finding, before: BaselineEntry) -> bool:
    """Return whether a known finding has worse effects than in the baseline, as far as that has
    them.
    """
    if before.break_effects is None:
        return False
    worst = max(map(EFFECTS.index, before.break_effects), default=-1)
    skipped, rest_eager = set(before.skipped_frames), set(before.rest_eager_frames)
    return (
        any(EFFECTS.index(effect) > worst for effect in finding.break_effects)
        or not skipped.issuperset(finding.effects.skipped_frames)
        or not (skipped | rest_eager).issuperset(finding.effects.rest_eager_frames)
    )


def _newly_eager(
    diagnosis: Diagnosis, before: BaselineRun, explained: Sequence[Finding]
) -> tuple[str, ...]:
    """Return the functions that run eagerly as a whole and didn't in the baseline."""
    named = {name for finding in explained for name in finding.effects.skipped_frames}
    known = {*before.eager_functions, *named}
    return tuple(name for name in run_of(diagnosis).eager_functions if name not in known)


def _has_lost_coverage(diagnosis: Diagnosis, before: BaselineRun) -> bool:
    """Return whether the share in graphs fell beyond noise because more operations run eagerly, or
    became unknown.

    A graph that got smaller lowers the share too, and isn't a loss.
    """
    now, detail = diagnosis.summary.coverage, diagnosis.summary.coverage_detail
    if before.coverage is None or detail is None:
        return before.coverage is not None
    is_lower = now is not None and before.coverage - now > _NOISE
    return is_lower and detail.eager_ops > (before.eager_ops or 0)
