"""Two diagnoses side by side: what differs between the runs, the numbers, then new, gone and common
findings.

Comes in: a ``DiagnosisComparison``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from graphdoctor.facts.check import DiagnosisComparison, SameFinding
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.views.finding_cards import card_of, place_of
from graphdoctor.views.next_step import after_comparison
from graphdoctor.views.parts import Block, Note, Row, Rows, Section, Span, Table, Verdict, View
from graphdoctor.views.words import ONE_RUN_EACH, UNKNOWN, clusters, count_changes, title_parts
from graphdoctor.wording import UNCHANGED, counted, duration, join_texts, times

_SINGLE = "Each time is a single measurement, which varies from run to run."


def comparison_view(comparison: DiagnosisComparison) -> View:
    """Return the comparison as a tree."""
    before, after = comparison.before, comparison.after
    was, now = before.target.text or "a program", after.target.text or "a program"
    _, *rest = title_parts(after)
    title = (f"Two runs of {now}" if was == now else f"{was} → {now}", *rest)
    pieces, then = tuple(_parts(comparison)), after_comparison(comparison)
    return View(title, "What changed", pieces, after.graphdoctor_version, then)


def _parts(comparison: DiagnosisComparison) -> Iterator[Block]:
    before, after = comparison.before, comparison.after
    names = (("before", before.name), ("after", after.name))
    yield Rows(Row(label, Note(Span(name), "dim")) for label, name in names if name)
    new, gone, unseen, same = comparison.new, comparison.gone, comparison.unseen, comparison.same
    said = "No findings on either side."
    if new or gone or unseen or same:
        lost = f"{len(gone)} gone"
        if unseen:
            lost = f"{len(unseen)} that the partial run may not have reached"
        said = f"{counted(len(new), 'new finding')}, {lost}, {len(same)} in both."
    yield Verdict(said, "bad" if new else "good" if gone else None)
    yield from (Note(mismatch.message, "warning") for mismatch in comparison.mismatches)
    rows = (
        (label, old, now if now == old else Span(now, "strong"), change)
        for label, old, now, change in _numbers(comparison)
    )
    columns = ("#count", "#before", "#after", "change")
    numbers = Table(columns, rows, "number", label="Counts and times of both runs")
    yield Section("Numbers", (numbers, Note(_SINGLE, "dim")))
    yield Section("New", map(card_of, clusters(new)), count=len(new), tone="bad")
    yield Section("Gone", _lines(gone), count=len(gone), tone="good")
    missed = "Not seen in the partial run"
    yield Section(missed, _lines(unseen), count=len(unseen), tone="warning")
    changed = [pair for pair in same if {"severity", "count"} & set(pair.changes)]
    alike = [pair for pair in same if pair not in changed]
    title = "In both, with another severity or count"
    yield Section(title, _same(changed), "Changed", len(changed))
    if alike:
        yield Note(f"{counted(len(alike), 'finding')} in both (show with -v)", "dim", show="short")
    yield Section("In both", _same(alike), count=len(alike), show="long")
    if before.hidden_findings or after.hidden_findings:
        counts = f"{before.hidden_findings} before, {after.hidden_findings} after"
        yield Note(f"Hidden by --own-code, --select or --ignore: {counts}.", "dim")


# Numbers.


def _numbers(comparison: DiagnosisComparison) -> Iterator[tuple[str, str, str, str]]:
    """Label, before, after, change; counts that are 0 on both sides are left out."""
    sides = comparison.before, comparison.after
    old, new = (side.summary for side in sides)
    if any(side.has_calls for side in sides):
        was, now = (str(side.summary.calls) if side.has_calls else UNKNOWN for side in sides)
        are_known = all(side.has_calls for side in sides)
        yield "calls", was, now, f"{new.calls - old.calls:+d}" if are_known and was != now else ""
    yield from count_changes(old, new)
    yield (
        "compile time",
        *_times(old.compile_time_s, new.compile_time_s, lambda seconds: f"{seconds:.2f} s"),
    )
    yield "steady call", *_times(old.steady_call_us, new.steady_call_us, duration)


def _times(
    before: float | None, after: float | None, shown: Callable[[float], str]
) -> tuple[str, str, str]:
    """Return a time before and after, each of one run: what lies between two runs of the same
    program is in no interval.
    """
    first, last = (UNKNOWN if time is None else shown(time) for time in (before, after))
    if not before or not after:
        return first, last, ""
    return first, last, UNCHANGED if first == last else ONE_RUN_EACH


# Findings.


def _lines(findings: Sequence[Finding]) -> Rows:
    """A finding that is gone needs no suggestion."""
    rows = []
    for finding in findings:
        source = Note(Span(finding.location.text or "", "code"), show="long")
        said = Note((place_of(finding.location), f"  {finding.message}"))
        rows.append(Row(finding.code, (said, source) if finding.location.text else said))
    return Rows(rows, "finding")


def _same(pairs: Sequence[SameFinding]) -> Rows:
    return Rows((Row(pair.after.code, tuple(_changes(pair))) for pair in pairs), "finding")


def _changes(pair: SameFinding) -> Iterator[Note]:
    before, after = pair.before, pair.after
    was = f" (was line {before.location.line})" if "line" in pair.changes else ""
    yield Note((place_of(after.location), f"{was}  {after.message}"))
    severity = f"{before.severity} → {after.severity}" if "severity" in pair.changes else None
    count = f"{times(before.count)} → {times(after.count)}" if "count" in pair.changes else None
    if severity or count:
        yield Note(join_texts(", ", severity, count))
