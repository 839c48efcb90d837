"""Adds what ``--what-if`` found to suggestions: findings and a ``WhatIf`` in, findings out.

A suggestion that a replay tried isn't only advice any more: one that saves nothing is said to, one that helps says how
much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphdoctor.facts.diagnosis import Finding, Fix
from graphdoctor.facts.fixes import Verdict
from graphdoctor.facts.trials import Remedy, TrialResult, WhatIf
from graphdoctor.facts.wording import counted


def with_replays(findings: Sequence[Finding], answer: WhatIf | None) -> list[Finding]:
    """The findings, with the results of replays on their suggestions; those that save nothing come last.

    Args:
        findings: All findings of a diagnosis.
        answer: The replays, or None.
    """
    base = next((result for result in answer.results if not result.remedies), None) if answer else None
    if answer is None or base is None or base.compiles is None:
        return list(findings)
    return [
        finding.model_copy(update={"fixes": tuple(_judged(finding.fixes, answer.results, base))})
        for finding in findings
    ]


def _judged(fixes: Sequence[Fix], results: Sequence[TrialResult], base: TrialResult) -> Iterator[Fix]:
    refuted: list[Fix] = []
    for fix in fixes:
        result = next((one for one in results if len(one.remedies) == 1 and _is_same(fix, one.remedies[0])), None)
        if fix.verdict != "not tried" or result is None:
            yield fix
            continue
        verdict, reason = _verdict(result, base)
        judged = fix.model_copy(update={"verdict": verdict, "reason": reason})
        if verdict == "not tried":
            yield judged
        else:
            refuted.append(judged)
    yield from refuted


def _is_same(fix: Fix, remedy: Remedy) -> bool:
    """Whether the remedy is the suggestion: the same setting, or the same lines to write."""
    code = fix.setting.code if fix.setting is not None else fix.snippet
    if code is None or remedy.snippet is None:
        return False
    return set(code.splitlines()) == set(remedy.snippet.splitlines())


def _verdict(result: TrialResult, base: TrialResult) -> tuple[Verdict, str | None]:
    """What a replay says of a suggestion; "not tried" if it saves compiles, since it proves no finding gone."""
    if result.compiles is None:
        return "failed", result.error
    if result.outputs == "different":
        return "changes results", result.where
    before, after = _score(base), _score(result)
    limit = ", over the recompile limit" if result.frames_over_limit else ""
    reason = f"replayed: {counted(base.compiles or 0, 'compile')} → {result.compiles}{limit}"
    if after > before:
        return "makes it worse", reason
    return ("not tried" if after < before else "no effect"), reason


def _score(result: TrialResult) -> tuple[int, int]:
    return result.frames_over_limit or 0, result.compiles or 0
