"""A check, or two diagnoses side by side, as Markdown for a comment on a pull request; what all Markdown is made of.

Comes in: a ``CheckReport`` or a ``DiagnosisComparison``. Goes out: GitHub's Markdown with the essentials at the top and
the rest folded, no longer than GitHub accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted, times
from graphdoctor.views.markdown_text import code, fenced, html_code, plain, sentence
from graphdoctor.views.words import (
    UNKNOWN,
    baseline_notes,
    bucket_texts,
    budget_text,
    changed_text,
    check_verdict,
    compared_rows,
    comparison_verdict,
    more_eager_texts,
    place_text,
    share_text,
    side_parts,
    suggested,
    worse_text,
    worth_trying,
)

if TYPE_CHECKING:
    from graphdoctor.facts.check import CheckReport, TargetCheck
    from graphdoctor.facts.comparison import DiagnosisComparison, SameFinding, Side
    from graphdoctor.facts.diagnosis import Finding, Fix, Summary

MAX_CHARACTERS = 60_000
"""GitHub rejects comments of more than 65,536; a workflow may add some text of its own."""

_ROOM_FOR_CUT = 300
"""Characters reserved to report what was cut, in a section and at the end."""


@dataclass(frozen=True)
class Section:
    """Items under a heading, the last of which may be cut.

    Args:
        items: One or a few lines each.
        noun: What one item is.
        head: Lines before them, such as a heading or the head of a table.
        summary: HTML of the line that unfolds the section; None for one that isn't folded.
    """

    items: Sequence[str]
    noun: str
    head: str = ""
    summary: str | None = None


def render_check_markdown(report: CheckReport) -> str:
    """A check: verdict, a table of the targets, new findings; what fails nothing is folded.

    Args:
        report: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    return document(["## graphdoctor", f"**{_verdict(report)}**"], _check_sections(report))


def render_comparison_markdown(comparison: DiagnosisComparison) -> str:
    """Two diagnoses side by side: verdict, numbers, new findings; those that are gone or in both are folded.

    Args:
        comparison: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    head = ["## graphdoctor", f"**{comparison_verdict(comparison)}**", _sides(comparison)]
    return document(head, _comparison_sections(comparison))


def document(head: Sequence[str], sections: Iterable[Section]) -> str:
    """Everything that fits, in order, and how much was left out.

    Args:
        head: Paragraphs at the top, which are never cut.
        sections: What follows; those without items are left out.
    """
    text = "\n\n".join(head)
    left_out = 0
    for section in sections:
        opening, closing = "\n\n" + section.head, ""
        if section.summary is not None:
            opening = f"\n\n<details><summary>{section.summary}</summary>{opening}"
            closing = "\n\n</details>"
        room = MAX_CHARACTERS - _ROOM_FOR_CUT - len(text) - len(opening) - len(closing)
        shown: list[str] = []
        for item in section.items:
            room -= len(item) + 1
            if room < 0:
                break
            shown.append(item)
        left = len(section.items) - len(shown)
        if not shown:
            left_out += left
            continue
        cut = (
            f"\n\n_{counted(left, f'more {section.noun}')}, left out to keep the comment short enough._" if left else ""
        )
        text += opening + "\n".join(shown) + cut + closing
    if left_out:
        text += f"\n\n_{counted(left_out, 'more line')}, left out to keep the comment short enough._"
    return text + "\n"


# The gate.


def _verdict(report: CheckReport) -> str:
    targets = report.targets
    parts = [check_verdict(report)]
    if failing := sum(len(target.failing) for target in targets):
        parts.append(counted(failing, "new finding"))
    if worse := sum(len(target.failing_worse) for target in targets):
        parts.append(f"{worse} worse")
    if budgets := sum(not budget.is_kept for target in targets for budget in target.budgets):
        parts.append(f"{counted(budgets, 'budget')} not met")
    if fixed := sum(len(target.fixed) for target in targets):
        parts.append(f"{fixed} fixed")
    return ", ".join(parts) + "."


def _check_sections(report: CheckReport) -> Iterator[Section]:
    head = (
        "| target | | new | break sites | recompiles | graphs | coverage |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    yield Section([_target_row(target) for target in report.targets], "target", head)
    yield Section(list(_warnings(report)), "note")
    for target in report.targets:
        failing = [_finding(finding) for finding in target.failing]
        yield Section(failing, "new finding", f"### New in {code(target.name)}\n\n")
        worse = [f"{_finding(item.finding)}\n\n  {sentence(worse_text(item))}" for item in target.failing_worse]
        yield Section(worse, "finding", f"### Worse in {code(target.name)}\n\n")
    for target in report.targets:
        yield from _folded(target, "" if len(report.targets) == 1 else f" in {html_code(target.name)}")
    unused = [
        f"- {code(entry.file if entry.line is None else f'{entry.file}:{entry.line}')} {plain(', '.join(entry.codes))}"
        for entry in report.unused_ignores
    ]
    yield Section(unused, "entry", summary=f"Unused ignores: {len(unused)}")
    notes = [f"- {plain(note)}" for note in report.notes]
    yield Section(notes, "note", summary=f"Notes: {len(notes)}")
    skipped = [f"- {code(name)}" for name in report.skipped]
    yield Section(skipped, "target", summary=f"Skipped because they don't reach any of the given files: {len(skipped)}")


def _target_row(target: TargetCheck) -> str:
    summary = target.diagnosis.summary if target.diagnosis else None
    cells = [
        code(target.name),
        target.state if target.state == "passed" else f"**{target.state}**",
        UNKNOWN if target.state == "crashed" else str(len(target.failing)),
        _measured(target, summary, "max-breaks", lambda found: str(found.break_sites)),
        _measured(target, summary, "max-recompiles", lambda found: str(found.recompiles)),
        _measured(target, summary, "max-graphs", lambda found: str(found.graphs)),
        _measured(target, summary, "min-coverage", lambda found: share_text(found.coverage)),
    ]
    return f"| {' | '.join(cells)} |"


def _measured(target: TargetCheck, summary: Summary | None, budget: str, shown: Callable[[Summary], str]) -> str:
    """A number, in bold with its limit if it misses it."""
    broken = [limit for limit in target.budgets if limit.name == budget and not limit.is_kept]
    if broken:
        return f"**{budget_text(broken[0])}**"
    return UNKNOWN if summary is None else shown(summary)


def _warnings(report: CheckReport) -> Iterator[str]:
    for target in report.targets:
        if target.state == "crashed":
            yield f"- {code(target.name)} crashed: {plain(target.error or 'it did not run to the end')}"
        elif target.error is not None:
            yield f"- {code(target.name)} failed: {plain(target.error)}"
        if target.is_more_eager:
            yield from (f"- {code(target.name)}: {sentence(words)}" for words in more_eager_texts(target))
        yield from (f"- {code(target.name)}: {sentence(words)}" for words in baseline_notes(target))
        if target.is_other_torch:
            yield (
                f"- {code(target.name)}: the baseline is from another version of torch, "
                "so new and fixed findings may come from the upgrade."
            )


def _folded(target: TargetCheck, where: str) -> Iterator[Section]:
    failing = {finding.fingerprint for finding in target.failing}
    below = [_finding(finding) for finding in target.new if finding.fingerprint not in failing]
    yield Section(below, "finding", summary=f"New, but below the severity that fails{where}: {len(below)}")
    fixed = [
        f"- **{plain(entry.code)}** {code(entry.file)} in {code(entry.function)}: {sentence(entry.message)}"
        for entry in target.fixed
    ]
    yield Section(
        fixed, "finding", summary=f"Fixed{where}: {len(fixed)}; <code>graphdoctor baseline --update</code> removes them"
    )
    grown = {finding.fingerprint for finding in target.grown}
    known = [
        _line(finding) + (f" ({times(finding.count)}, more frequent)" if finding.fingerprint in grown else "")
        for finding in target.known
    ]
    yield Section(known, "finding", summary=f"In the baseline{where}: {len(known)}")
    ignored = [
        _line(entry.finding) + f" (by {entry.by}{': ' + plain(entry.reason) if entry.reason else ''})"
        for entry in target.ignored
    ]
    yield Section(ignored, "finding", summary=f"Ignored{where}: {len(ignored)}")


# Two diagnoses.


def _sides(comparison: DiagnosisComparison) -> str:
    return f"Before: {_side(comparison.before)}  \nAfter: {_side(comparison.after)}"


def _side(side: Side) -> str:
    first, *rest = side_parts(side)
    named = f" ({code(side.name)})" if side.name else ""
    return " · ".join([code(first), *map(plain, rest)]) + named


def _comparison_sections(comparison: DiagnosisComparison) -> Iterator[Section]:
    rows = [
        f"| {label} | {before} | {f'**{after}**' if before != after else after} | {ratio} |"
        for label, before, after, ratio in compared_rows(comparison.numbers)
    ]
    yield Section(rows, "number", "| | before | after | change |\n| --- | ---: | ---: | ---: |\n")
    made = [f"- {plain(mismatch.message)}" for mismatch in comparison.mismatches]
    yield Section(made, "difference", summary=f"Differences between the runs: {len(made)}")
    yield Section([_finding(finding) for finding in comparison.new], "new finding", "### New\n\n")
    worse = [pair for pair in comparison.same if {"severity", "count"} & set(pair.changes)]
    yield Section([_same(pair) for pair in worse], "finding", summary=f"In both, changed: {len(worse)}")
    gone = [_line(finding) for finding in comparison.gone]
    yield Section(gone, "finding", summary=f"Gone: {len(gone)}")
    same = [_same(pair) for pair in comparison.same if pair not in worse]
    yield Section(same, "finding", summary=f"In both: {len(same)}")
    before, after = comparison.before.hidden_findings, comparison.after.hidden_findings
    if before or after:
        hidden = f"_Hidden by --own-code, --select or --ignore: {before} before, {after} after._"
        yield Section([hidden], "note")


def _same(pair: SameFinding) -> str:
    was = f" (was line {pair.before.location.line})" if "line" in pair.changes else ""
    changed = changed_text(pair, has_costs=False)
    return _line(pair.after) + was + (f"; {changed}" if changed else "")


# Findings.


def _line(finding: Finding) -> str:
    location = finding.location
    return f"- **{plain(finding.code)}** {code(f'{location.shown_file}:{location.line}')} {sentence(finding.message)}"


def _finding(finding: Finding) -> str:
    """A finding to act on, with its function and first suggestion."""
    location = finding.location
    place = f"{code(f'{location.shown_file}:{location.line}')} in {code(location.function)}"
    text = f"- **{plain(finding.code)}** {finding.severity} {place}  \n  {sentence(finding.message)}"
    if finding.ddp_split is not None:
        text += "".join(f"  \n  {sentence(part)}" for part in bucket_texts(finding.ddp_split))
    for fix in worth_trying(finding.fixes)[:1]:
        text += f"  \n  Try: {suggested(fix, sentence(fix.title))}"
        text += snippet(fix)
    return text


def snippet(fix: Fix) -> str:
    """A suggestion's code and where it goes, or its edit, within the item of a list."""
    if fix.diff:
        block = fenced(fix.diff.rstrip("\n"), "diff")
    elif fix.snippet:
        block = fenced(fix.snippet, "python")
    else:
        return ""
    above = "" if fix.place is None or fix.diff else f"  \n  {sentence(place_text(fix.place))}:"
    lines = (line for part in block for line in part.splitlines())
    return above + "\n\n" + "\n".join(f"  {line}".rstrip() for line in lines) + "\n"
