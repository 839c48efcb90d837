"""How a run is worse than its baseline, apart from new findings, and whether it shows anything that can be judged.

Comes in: a diagnosis and what the baseline has of its target. Goes out: facts for a ``TargetCheck``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from graphdoctor.facts.check import BaselineEntry, BaselineRun, WorseFinding
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.recording import CompileSwitch, GapKind
from graphdoctor.rules.gate.baseline import EFFECTS, run_of

_INCOMPLETE: tuple[GapKind, ...] = (
    "unrecorded_compile",
    "log_damage",
    "log_cut",
    "log_beginning",
    "log_removed",
    "unreadable_record",
    "unfinished_compile",
)


def missing_records(diagnosis: Diagnosis) -> str | None:
    """The message of the first gap that means records are missing, so every count may be too low; None if none does."""
    gap = diagnosis.recording.gap(*_INCOMPLETE)
    return gap.message if gap is not None else None


_NOISE = 0.01
"""A share: coverage that falls by no more than this hasn't fallen."""


def compile_switch(diagnosis: Diagnosis) -> CompileSwitch | None:
    """What kept torch.compile from compiling, so that the run shows nothing; None if nothing did.

    What may compile some calls, such as the stance ``eager_then_compile``, counts only if no graph was made.
    """
    off = (found for found in diagnosis.recording.switches if found.is_off or not diagnosis.summary.graphs)
    return next(off, None)


def is_empty(diagnosis: Diagnosis, before: BaselineRun | None) -> bool:
    """Whether torch compiled nothing, and no baseline allows that.

    Without a measured baseline, a run whose findings say why there is no graph is not empty.
    """
    if diagnosis.summary.graphs:
        return False
    return before.graphs > 0 if before is not None else not diagnosis.findings


def worse_findings(known: Iterable[Finding], entries: Mapping[str, BaselineEntry]) -> Iterator[WorseFinding]:
    """Known findings with worse effects than in the baseline."""
    for finding in known:
        before = entries[finding.fingerprint]
        if before.break_effects is not None and _is_worse(finding, before):
            yield WorseFinding(finding=finding, before=before)


def _is_worse(finding: Finding, before: BaselineEntry) -> bool:
    worst = max(map(EFFECTS.index, before.break_effects or ()), default=-1)
    skipped, rest_eager = set(before.skipped_frames), set(before.rest_eager_frames)
    return (
        any(EFFECTS.index(effect) > worst for effect in finding.break_effects)
        or not skipped.issuperset(finding.effects.skipped_frames)
        or not (skipped | rest_eager).issuperset(finding.effects.rest_eager_frames)
    )


def newly_eager(diagnosis: Diagnosis, before: BaselineRun, explained: Iterable[Finding]) -> tuple[str, ...]:
    """Functions that run eagerly as a whole and didn't in the baseline."""
    named = {name for finding in explained for name in finding.effects.skipped_frames}
    known = {*before.eager_functions, *named}
    return tuple(name for name in run_of(diagnosis).eager_functions if name not in known)


def has_lost_coverage(diagnosis: Diagnosis, before: BaselineRun) -> bool:
    """Whether the share in graphs fell beyond noise because more operations run eagerly, or became unknown.

    A graph that got smaller lowers the share too, and isn't a loss.
    """
    share, detail = before.coverage, diagnosis.summary.coverage_detail
    if share is None:
        return False
    if detail is None:
        return True
    now = diagnosis.summary.coverage
    return now is not None and share - now > _NOISE and detail.eager_ops > (before.eager_ops or 0)
