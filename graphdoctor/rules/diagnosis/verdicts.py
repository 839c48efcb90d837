"""Adds the results of trials to findings: findings and a ``Treatment`` in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.diagnosis import Companion, Finding
from graphdoctor.facts.fixes import GRADES, WORKING, Fix, Treatment, TriedFix, Verdict, because
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.trials import TrialResult, WhatIf

_ORDER: tuple[Verdict, ...] = (
    "verified",
    "contained",
    "unproven",
    "not tried",
    "verified with loss",
    "moved",
    "no effect",
    "makes it worse",
    "changes results",
    "failed",
)


def with_verdicts(findings: Sequence[Finding], recording: Recording) -> list[Finding]:
    """Return the findings with the verdicts of trials on their fixes, applied ones first, and why
    they have no edit.
    """
    treatment = recording.treatment
    if treatment is None:
        reasons = recording.declined.reasons
        return [
            finding.replace(fixes=fixes_with(finding, (), reasons.get(finding.fingerprint)))
            for finding in findings
        ]
    return [
        finding.replace(
            fixes=fixes_with(finding, treatment.tried, treatment.declined.get(finding.fingerprint)),
            is_mended=finding.fingerprint in treatment.gone,
            goes_with=_goes_with(finding, treatment),
        )
        for finding in findings
    ]


def _goes_with(finding: Finding, treatment: Treatment) -> Companion | None:
    working = [fix for fix in treatment.tried if fix.verdict in WORKING]
    has_fix = any(fix.fingerprint == finding.fingerprint for fix in working)
    if has_fix or finding.fingerprint not in treatment.gone:
        return None
    applied = {_edit(fix) for fix in working if fix.is_applied}
    # Lines of later programs have other numbers.
    removing = [
        fix
        for fix in working
        if _edit(fix) in applied and fix.is_on_untouched and finding.site in fix.sites_gone
    ]
    # Edits tried together removed it together: only a trial of one alone shows which.
    edits_of = grouped((fix.recording, _edit(fix)) for fix in treatment.tried if fix.recording)
    alone = [fix for fix in removing if len({*edits_of.get(fix.recording or "", ())}) < 2]
    for fix in alone or (removing if len(set(map(_edit, removing))) == 1 else ()):
        return Companion(code=fix.code, fingerprint=fix.fingerprint, place=fix.finding_place)
    return None


def _edit(fix: TriedFix) -> tuple[str, str | None, str | None]:
    return fix.title, fix.snippet, fix.diff


def fixes_with(
    finding: Finding, tried: Sequence[TriedFix], declined: str | None
) -> tuple[Fix, ...]:
    """Return the fixes of a finding with the verdicts of trials, applied ones first.

    Args:
        finding: The finding.
        tried: What was tried, for other findings too.
        declined: Why no edit was written for it; None if there is one.
    """
    for_finding = [fix for fix in tried if fix.fingerprint == finding.fingerprint]
    # Each fix as it was tried last: one that is taken back can be tried again beside others. A
    # finding can have only fixes that were tried together with other verified fixes.
    latest: dict[object, TriedFix] = {}
    for trial in [
        fix for fix in for_finding if fix.is_on_untouched or fix.is_applied
    ] or for_finding:
        key = trial.title, trial.snippet, trial.diff
        if key not in latest or not latest[key].is_applied:
            latest[key] = trial
    # A suggestion and its trial have the setting in common, or the lines to write.
    suggested = {fix.setting or fix.snippet: fix for fix in finding.fixes}
    fixes = []
    for trial in latest.values():
        fix = Fix(**values_of(trial, *Fix.__dataclass_fields__))
        rule = suggested.get(fix.setting or fix.snippet)
        fixes.append(fix.replace(**values_of(rule, "place", "source")) if rule else fix)
    settings = {fix.setting for fix in fixes if fix.setting is not None}
    lines = {line for fix in fixes for line in (fix.snippet or "").splitlines()}
    has_edit = any(fix.diff for fix in fixes)

    def is_left(fix: Fix) -> bool:
        if fix.kind == "code" and has_edit:
            return False  # an edit replaces the rule's description of it
        if fix.setting is not None:
            return fix.setting not in settings
        # All of its lines can be tried in one trial or in several.
        return fix.snippet is None or not lines.issuperset(fix.snippet.splitlines())

    fixes += _without_edit(list(filter(is_left, finding.fixes)), declined)
    return tuple(sorted(fixes, key=_rank))


def _rank(fix: Fix) -> tuple[bool, int, int]:
    """Sort key: what was applied, by verdict, by what it leaves of the source."""
    grade = GRADES.index(fix.grade) if fix.grade else 0
    return not fix.is_applied, _ORDER.index(fix.verdict), grade


def _without_edit(fixes: Sequence[Fix], declined: str | None) -> Iterator[Fix]:
    """Yield suggestions, the first for the source with why no edit could be written for it.

    Args:
        fixes: What the rule suggests.
        declined: Why there is no edit; None if there is one.
    """
    for fix in fixes:
        if declined is not None and fix.kind == "code" and fix.verdict == "not tried":
            yield fix.replace(reasons=(because("declined", declined),))
            declined = None
        else:
            yield fix


def with_replays(findings: Sequence[Finding], answer: WhatIf | None) -> list[Finding]:
    """Return the findings, with the results of replays on their suggestions; those that save
    nothing come last.

    Args:
        findings: All findings of a diagnosis, none tried.
        answer: The replays, or None.
    """
    results = answer.results if answer else ()
    base = next((result for result in results if not result.remedies), None)
    if base is None or base.compiles is None:
        return list(findings)
    with_results = []
    for finding in findings:
        fixes = [_replayed(fix, results, base) for fix in finding.fixes]
        fixes.sort(key=lambda fix: fix.verdict != "not tried")
        with_results.append(finding.replace(fixes=tuple(fixes)))
    return with_results


def _replayed(fix: Fix, results: Sequence[TrialResult], base: TrialResult) -> Fix:
    """Judge a suggestion by the replay of the same lines; "not tried" if it saves compiles, since
    that proves no finding gone.
    """
    lines = set(((fix.setting and fix.setting.code) or fix.snippet or "").splitlines())
    for result in results:
        snippets = [remedy.snippet or "" for remedy in result.remedies]
        if not lines or len(snippets) != 1 or lines != set(snippets[0].splitlines()):
            continue
        verdict: Verdict = "not tried"
        if result.compiles is None:
            verdict, reason = "failed", because("message", result.error or "")
        elif result.outputs == "different":
            verdict, reason = "changes results", because("message", result.where or "")
        else:
            is_over = int((result.frames_over_limit or 0) > 0)
            reason = because("replayed", base.compiles or 0, result.compiles, is_over)
            if result.score >= base.score:
                verdict = "no effect" if result.score == base.score else "makes it worse"
        return fix.replace(verdict=verdict, reasons=(reason,))
    return fix
