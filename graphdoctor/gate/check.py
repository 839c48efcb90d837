"""The gate's verdict on one target: a diagnosis set against the baseline, the ignores and the budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphdoctor.diagnosis.diagnose import Selection
from graphdoctor.gate.baseline import Baseline, Entries, release
from graphdoctor.gate.budgets import Limits, budgets
from graphdoctor.gate.ignores import Comments, PathIgnore, ignored_by
from graphdoctor.model.check import FailOn, Ignored, TargetCheck
from graphdoctor.model.diagnosis import Diagnosis, Finding
from graphdoctor.model.recording import Call

_LOST = "GD902"
"""The rule of gaps that say that records were lost: what they would have told is not known."""


@dataclass(frozen=True)
class Policy:
    """What a target is judged by.

    Args:
        fail_on: The least severity of a new finding that fails it.
        limits: Its budgets.
        selection: The findings that count.
        paths: ``per-path-ignores``.
        baseline: What is known; None to allow nothing.
    """

    fail_on: FailOn = "warning"
    limits: Limits = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    paths: Sequence[PathIgnore] = ()
    baseline: Baseline | None = None


@dataclass(frozen=True)
class Sorted:
    """The findings of a diagnosis, those that count and those that do not.

    Args:
        counting: Worst first.
        ignored: With the reason of each.
    """

    counting: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]


def check_target(diagnosis: Diagnosis, *, name: str, target: str, comments: Comments, policy: Policy) -> TargetCheck:
    """Judge one target.

    Args:
        diagnosis: Of its run, with all findings.
        name: Its name in the configuration, or its text.
        target: Its text.
        comments: Ignore comments of the files that the run touched.
        policy: What it is judged by.
    """
    if (trouble := trouble_of(diagnosis)) is not None:
        return crashed(
            name=name, target=target, error=trouble, hint=diagnosis.exit.hint, diagnosis=diagnosis, policy=policy
        )
    found = sort_findings(diagnosis, comments, policy)
    version = release(diagnosis.environment.torch or "")
    compared = policy.baseline.entries(name, version) if policy.baseline else None
    entries: Mapping[str, int] = {entry.fingerprint: entry.count for entry in compared[1]} if compared else {}
    known = tuple(finding for finding in found.counting if finding.fingerprint in entries)
    refusal = refused_call(diagnosis)
    verdict = TargetCheck(
        name=name,
        target=target,
        state="passed",
        error=_refusal_text(refusal) if refusal else None,
        diagnosis=diagnosis,
        new=tuple(finding for finding in found.counting if finding.fingerprint not in entries),
        known=known,
        grown=tuple(finding for finding in known if finding.count > entries[finding.fingerprint]),
        fixed=_fixed(compared[1], diagnosis) if compared else (),
        ignored=found.ignored,
        budgets=budgets(policy.limits, diagnosis.summary),
        baseline_torch=compared[0] if compared else None,
        is_other_torch=compared is not None and compared[0] != version,
        fail_on=policy.fail_on,
    )
    has_failed = bool(refusal or verdict.failing) or not all(budget.is_kept for budget in verdict.budgets)
    return verdict.model_copy(update={"state": "failed"}) if has_failed else verdict


def crashed(
    *, name: str, target: str, error: str, hint: str | None, diagnosis: Diagnosis | None, policy: Policy
) -> TargetCheck:
    """The verdict on a target that could not be run to its end: none of its findings and counts is the whole truth."""
    return TargetCheck(
        name=name,
        target=target,
        state="crashed",
        error=error,
        hint=hint,
        diagnosis=diagnosis,
        fail_on=policy.fail_on,
    )


def sort_findings(diagnosis: Diagnosis, comments: Comments, policy: Policy) -> Sorted:
    """Tell the findings that count from those that are ignored."""
    counting: list[Finding] = []
    ignored: list[Ignored] = []
    for finding in diagnosis.findings:
        reason = ignored_by(finding, comments=comments, paths=policy.paths, selection=policy.selection)
        if reason is None:
            counting.append(finding)
        else:
            ignored.append(reason)
    return Sorted(tuple(counting), tuple(ignored))


def _fixed(entries: Entries, diagnosis: Diagnosis) -> Entries:
    """Entries that the run has nothing of any more; one whose finding is ignored by now is still there."""
    there = {finding.fingerprint for finding in diagnosis.findings}
    return tuple(entry for entry in entries if entry.fingerprint not in there)


def trouble_of(diagnosis: Diagnosis) -> str | None:
    """Why a run tells nothing that a gate could rely on, or None when it does.

    A call that torch.compile itself refused (``fullgraph``, a backend) is an answer, where a finding says why.
    """
    refusal = refused_call(diagnosis)
    if refusal is not None:
        is_explained = any(finding.severity == "error" for finding in diagnosis.findings)
        return None if is_explained else _refusal_text(refusal)
    if diagnosis.exit.reason != "finished":
        return diagnosis.exit.message or "The run ended early."
    failed = next((call for call in diagnosis.calls if call.outcome != "ok"), None)
    if failed is not None:
        return f"Call {failed.index} failed: {failed.error.type if failed.error else 'it did not end'}."
    if diagnosis.is_partial:
        return "The recording is partial: its log is cut."
    if not diagnosis.calls:
        return "No call was made."
    if diagnosis.environment.torch is None:
        return "The recording does not say which torch ran."
    return next((gap.message for gap in diagnosis.gaps if gap.code == _LOST), None)


def refused_call(diagnosis: Diagnosis) -> Call | None:
    """The call that torch.compile refused by itself, while it works without."""
    return next(
        (
            call
            for call in diagnosis.calls
            if call.error is not None and call.error.from_compiler and call.error.eager in (None, "ok")
        ),
        None,
    )


def _refusal_text(call: Call) -> str:
    name = call.error.type.rpartition(".")[2] if call.error else ""
    return f"torch.compile refused call {call.index} ({name}): it and the calls behind it were not made."
