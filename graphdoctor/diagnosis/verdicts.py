"""Adds the results of trials to findings: findings and a ``Treatment`` in, findings out."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.model.diagnosis import Finding, Fix
from graphdoctor.model.fixes import Treatment, TriedFix, Verdict

_ORDER: dict[Verdict, int] = {
    "verified": 0,
    "unproven": 1,
    "not tried": 2,
    "no effect": 3,
    "changes results": 4,
    "failed": 5,
}


def with_verdicts(findings: Sequence[Finding], treatment: Treatment | None) -> list[Finding]:
    """The findings with the verdicts on their fixes, verified fixes first.

    Args:
        findings: All findings of a diagnosis.
        treatment: The trials, or None.
    """
    if treatment is None:
        return list(findings)
    return [
        finding.model_copy(
            update={
                "fixes": _fixes(finding, treatment.tried),
                "is_mended": finding.fingerprint in treatment.gone,
            }
        )
        for finding in findings
    ]


def _fixes(finding: Finding, tried: Sequence[TriedFix]) -> tuple[Fix, ...]:
    every = [fix for fix in tried if fix.fingerprint == finding.fingerprint]
    # A fix that was only tried together with other verified fixes is the exception.
    own = [fix for fix in every if fix.is_on_untouched] or every
    sources = {fix.snippet: fix.source for fix in finding.fixes}
    found = [
        Fix(
            title=fix.title,
            kind=fix.kind,
            snippet=fix.snippet,
            is_safe=fix.is_safe,
            verdict=fix.verdict,
            reason=fix.reason,
            diff=fix.diff,
            source=sources.get(fix.snippet),
        )
        for fix in own
    ]
    has_edit = any(fix.diff for fix in own)
    # A setting is tried with the imports that it needs above it.
    written = "\n".join(fix.snippet or "" for fix in own).splitlines()
    for fix in finding.fixes:
        is_edited = fix.kind == "code" and has_edit  # the edit replaces the rule's description of it
        is_tried = fix.snippet is not None and set(fix.snippet.splitlines()) <= set(written)
        if not is_edited and not is_tried:
            found.append(fix)
    return tuple(sorted(found, key=lambda fix: _ORDER[fix.verdict]))
