"""Compares two diagnoses: two ``Diagnosis`` in, a ``DiagnosisComparison`` out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from graphdoctor.facts.comparison import (
    Change,
    DiagnosisComparison,
    Match,
    SameFinding,
    Side,
)
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.rules.diagnosis.mismatches import is_foreign, mismatches
from graphdoctor.rules.diagnosis.selection import Selection

_Pairs = list[tuple[Finding, Finding]]


def compare(
    before: Diagnosis,
    after: Diagnosis,
    *,
    names: tuple[str | None, str | None] = (None, None),
    selection: Selection | None = None,
) -> DiagnosisComparison:
    """Compare two diagnoses.

    Findings with the same fingerprint are the same finding. A line that moved keeps its finding; an edited line has
    one finding that is gone and one that is new.

    Args:
        before: The first.
        after: The second.
        names: Their names in the report.
        selection: Which findings to compare; None for all.

    Returns:
        What is new, gone and the same, and how the two runs differ.
    """
    chosen = selection or Selection()
    gone = [finding for finding in before.findings if chosen.keeps(finding)]
    new = [finding for finding in after.findings if chosen.keeps(finding)]
    sides = (_side(before, names[0], kept=len(gone)), _side(after, names[1], kept=len(new)))
    order = {id(finding): place for place, finding in enumerate(new)}
    same = [_same(*pair, by="fingerprint") for pair in _take_pairs(gone, new, lambda finding: finding.fingerprint)]
    if is_foreign(before) != is_foreign(after):
        same += [_same(*pair, by="place") for pair in _take_pairs(gone, new, _place)]
    return DiagnosisComparison(
        before=sides[0],
        after=sides[1],
        mismatches=mismatches(before, after, gone=gone, new=new),
        new=tuple(new),
        gone=tuple(gone),
        same=tuple(sorted(same, key=lambda pair: order[id(pair.after)])),
    )


def _side(diagnosis: Diagnosis, name: str | None, *, kept: int) -> Side:
    return Side(
        name=name,
        graphdoctor_version=diagnosis.graphdoctor_version,
        environment=diagnosis.recording.environment,
        target=diagnosis.recording.target,
        is_partial=diagnosis.recording.is_partial,
        summary=diagnosis.summary,
        has_calls=not (diagnosis.recording.target.runs_itself or is_foreign(diagnosis)),
        hidden_findings=len(diagnosis.findings) - kept,
    )


def _take_pairs(gone: list[Finding], new: list[Finding], key: Callable[[Finding], Hashable]) -> _Pairs:
    """Take findings with the same key out of both lists, in pairs and in the order of lines."""
    waiting: dict[Hashable, list[Finding]] = {}
    for finding in sorted(gone, key=_line):
        waiting.setdefault(key(finding), []).append(finding)
    pairs: _Pairs = []
    for finding in sorted(new, key=_line):
        known = waiting.get(key(finding))
        if known:
            pairs.append((known.pop(0), finding))
    matched = {id(finding) for pair in pairs for finding in pair}
    gone[:] = [finding for finding in gone if id(finding) not in matched]
    new[:] = [finding for finding in new if id(finding) not in matched]
    return pairs


def _line(finding: Finding) -> int:
    return finding.location.line


def _place(finding: Finding) -> Hashable:
    """What identifies a finding in a log that graphdoctor didn't record, where functions have no class."""
    location = finding.location
    return finding.code, location.file, location.function.rpartition(".")[2], location.text, finding.torch_id


def _same(before: Finding, after: Finding, *, by: Match) -> SameFinding:
    return SameFinding(before=before, after=after, changes=tuple(_changes(before, after)), matched_by=by)


def _changes(before: Finding, after: Finding) -> Iterator[Change]:
    if before.location.line != after.location.line:
        yield "line"
    if before.severity != after.severity:
        yield "severity"
    if before.count != after.count:
        yield "count"
