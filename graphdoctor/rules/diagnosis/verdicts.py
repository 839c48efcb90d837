"""Adds the results of trials to findings: findings and a ``Treatment`` in, findings out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Companion, Finding
from graphdoctor.facts.fixes import WORKING, Fix, Reason, Treatment, TriedFix, Verdict, because
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.trials import Remedy, TrialResult, WhatIf

_ORDER: tuple[Verdict, ...] = (
    *(
        "verified",
        "contained",
        "unproven",
        "not tried",
        "moved",
        "no effect",
        "makes it worse",
        "changes results",
    ),
    "failed",
)


def with_verdicts(findings: Sequence[Finding], recording: Recording) -> list[Finding]:
    """Return the findings with the verdicts of trials on their fixes, verified fixes first, and why
    they have no edit.
    """
    treatment, reasons = recording.treatment, recording.declined.reasons
    if treatment is None:
        return [
            one.replace(fixes=tuple(_in_words(one.fixes, reasons.get(one.fingerprint))))
            for one in findings
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
    is_own = any(fix.fingerprint == finding.fingerprint for fix in working)
    if is_own or finding.fingerprint not in treatment.gone:
        return None
    # Lines of later programs have other numbers.
    causes = (
        fix
        for fix in working
        if fix.is_applied and fix.is_on_untouched and finding.site in fix.sites_gone
    )
    fix = next(causes, None)
    return (
        None
        if fix is None
        else Companion(code=fix.code, fingerprint=fix.fingerprint, place=fix.finding_place)
    )


def fixes_with(
    finding: Finding, tried: Sequence[TriedFix], declined: str | None
) -> tuple[Fix, ...]:
    """Return the fixes of a finding with the verdicts of trials, verified ones first.

    Args:
        finding: The finding.
        tried: What was tried, for other findings too.
        declined: Why no edit was written for it; None if there is one.
    """
    every = [fix for fix in tried if fix.fingerprint == finding.fingerprint]
    # A finding can have only fixes that were tried together with other verified fixes.
    own = _last([fix for fix in every if fix.is_on_untouched] or every)
    rules = {_key(fix): fix for fix in finding.fixes}
    fixes = []
    for one in own:
        rule = rules.get(_key(one))
        fix = Fix(**values_of(one, *Fix.__dataclass_fields__))
        fixes.append(fix if rule is None else fix.replace(place=rule.place, source=rule.source))
    has_edit = any(fix.diff for fix in own)
    # An edit replaces the rule's description of it.
    rest = [
        fix
        for fix in finding.fixes
        if not (fix.kind == "code" and has_edit) and not _is_tried(fix, own)
    ]
    fixes += _in_words(rest, declined)
    return tuple(sorted(fixes, key=lambda fix: _ORDER.index(fix.verdict)))


def _last(tried: Sequence[TriedFix]) -> list[TriedFix]:
    """Return each fix once, as it was tried last: one that is taken back can be tried again beside
    others.
    """
    latest: dict[tuple[str, str | None, str | None], TriedFix] = {}
    for fix in tried:
        key = fix.title, fix.snippet, fix.diff
        if key not in latest or not latest[key].is_applied:
            latest[key] = fix
    return list(latest.values())


def _in_words(fixes: Sequence[Fix], declined: str | None) -> Iterator[Fix]:
    """Suggestions without their code, if no edit could be written: what kept it from being written
    holds for the code.

    Args:
        fixes: What the rule suggests.
        declined: Why there is no edit, which is said once; None if there is one.
    """
    reasons = () if declined is None else (because("declined", declined),)
    for fix in fixes:
        if declined is None or fix.kind != "code" or fix.verdict != "not tried":
            yield fix
        else:
            yield fix.replace(snippet=None, place=None, reasons=reasons)
            reasons = ()


def _is_tried(fix: Fix, own: Sequence[TriedFix]) -> bool:
    """Return whether a suggestion was tried: its setting, or all of its lines, in one trial or in
    several.
    """
    if fix.setting is not None:
        return any(one.setting == fix.setting for one in own)
    written = {line for one in own for line in (one.snippet or "").splitlines()}
    return fix.snippet is not None and set(fix.snippet.splitlines()) <= written


def _key(fix: Fix) -> Setting | str | None:
    """Return what a suggestion and its trial have in common: the setting, or the lines to write."""
    return fix.setting or fix.snippet


def with_replays(findings: Sequence[Finding], answer: WhatIf | None) -> list[Finding]:
    """Return the findings, with the results of replays on their suggestions; those that save
    nothing come last.

    Args:
        findings: All findings of a diagnosis.
        answer: The replays, or None.
    """
    base = (
        next((result for result in answer.results if not result.remedies), None) if answer else None
    )
    if answer is None or base is None or base.compiles is None:
        return list(findings)
    return [
        finding.replace(fixes=tuple(_judged(finding.fixes, answer.results, base)))
        for finding in findings
    ]


def _judged(
    fixes: Sequence[Fix], results: Sequence[TrialResult], base: TrialResult
) -> Iterator[Fix]:
    refuted: list[Fix] = []
    for fix in fixes:
        result = next(
            (one for one in results if len(one.remedies) == 1 and _is_same(fix, one.remedies[0])),
            None,
        )
        if fix.verdict != "not tried" or result is None:
            yield fix
            continue
        verdict, reason = _verdict(result, base)
        judged = fix.replace(verdict=verdict, reasons=(reason,))
        if verdict == "not tried":
            yield judged
        else:
            refuted.append(judged)
    yield from refuted


def _is_same(fix: Fix, remedy: Remedy) -> bool:
    """Return whether the remedy is the suggestion: the same setting, or the same lines to write."""
    code = fix.setting.code if fix.setting is not None else fix.snippet
    if code is None or remedy.snippet is None:
        return False
    return set(code.splitlines()) == set(remedy.snippet.splitlines())


def _verdict(result: TrialResult, base: TrialResult) -> tuple[Verdict, Reason]:
    """Judge a suggestion by its replay; "not tried" if it saves compiles, since that proves no
    finding gone.
    """
    if result.compiles is None:
        return "failed", because("message", result.error or "")
    if result.outputs == "different":
        return "changes results", because("message", result.where or "")
    before, after = _score(base), _score(result)
    values = base.compiles or 0, result.compiles, int(bool(result.frames_over_limit))
    reason = because("replayed", *values)
    if after > before:
        return "makes it worse", reason
    return ("not tried" if after < before else "no effect"), reason


def _score(result: TrialResult) -> tuple[int, int]:
    return result.frames_over_limit or 0, result.compiles or 0
