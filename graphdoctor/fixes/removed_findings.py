"""Which findings of a program are gone once its fixes are in: two states of it in, fingerprints out."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.fixes.rule_codes import SKIPPED_FRAME
from graphdoctor.fixes.trial_log import TrialLog
from graphdoctor.fixes.trials import State, Trials


def gone(trials: Trials, log: TrialLog, untouched: State, best: State, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Fingerprints of findings that the best program no longer has.

    Args:
        trials: Know which lines of both programs are the same.
        log: Knows which findings were left open.
        untouched: The program without fixes.
        best: The program with those that work.
        findings: Findings of the untouched program.
    """
    sites = trials.sites(untouched, best)
    rest = list(findings)
    for finding in best.observed.diagnosis.findings:
        line = trials.original_line(best.program, finding.location)
        same = [other for other in rest if _is_same_cause(other, finding)]
        if same:
            # Of equal lines, the one that is still there; the fingerprint says only which of them comes first.
            rest.remove(min(same, key=lambda other: _distance(other, finding, line)))
    return tuple(
        finding.fingerprint
        for finding in rest
        if not (sites.replacements(finding) or log.is_unresolved(finding) or _is_still_skipped(finding, best))
    )


def _is_still_skipped(finding: Finding, state: State) -> bool:
    """Whether a finding says that torch skips a function, and it still skips it, if because of another line."""
    skipped = {name for found in state.observed.diagnosis.findings for name in found.effects.skipped_frames}
    return finding.code == SKIPPED_FRAME and not skipped.isdisjoint(finding.effects.skipped_frames)


def _is_same_cause(one: Finding, other: Finding) -> bool:
    """Whether two findings differ in nothing but the line; a fingerprint numbers them."""
    return one.fingerprint == other.fingerprint or _cause(one) == _cause(other)


def _cause(finding: Finding) -> tuple[str, str, str, str | None, str | None]:
    return (
        finding.code,
        finding.location.file,
        finding.location.function,
        finding.location.text,
        finding.torch_id,
    )


def _distance(one: Finding, other: Finding, line: int) -> tuple[int, bool]:
    return abs(one.location.line - line), one.fingerprint != other.fingerprint
