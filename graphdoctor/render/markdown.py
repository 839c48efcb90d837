"""The gate's answer, and two diagnoses side by side, as Markdown for a comment on a pull request.

Comes in: a ``CheckReport`` or a ``DiagnosisComparison``. Goes out: GitHub's Markdown, short on top, the rest folded,
and never longer than GitHub takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphdoctor.model.check import CheckReport, TargetCheck
from graphdoctor.model.comparison import DiagnosisComparison, SameFinding, Side
from graphdoctor.model.diagnosis import Finding, Summary
from graphdoctor.render.markdown_text import code, html_code, plain, sentence
from graphdoctor.render.words import (
    UNKNOWN,
    budget_text,
    changed_text,
    compared_rows,
    comparison_verdict,
    counted,
    known_share,
    side_parts,
    suggested,
    times,
    worth_trying,
)

MAX_CHARACTERS = 60_000
"""GitHub refuses a comment of more than 65,536; a workflow may add its own words."""

_ROOM_FOR_CUT = 300
"""Characters kept free for saying what was cut, in a section and at the end."""


@dataclass(frozen=True)
class _Section:
    """Items below a heading, of which the last ones may be cut.

    Args:
        items: One or a few lines each.
        noun: What one item is.
        head: Lines in front of them, such as a heading or a table's.
        summary: HTML of the line that folds the section; None for one that is open.
    """

    items: Sequence[str]
    noun: str
    head: str = ""
    summary: str | None = None


def render_check_markdown(report: CheckReport) -> str:
    """The gate's answer: verdict, a table of the targets, new findings; what fails nothing is folded.

    Args:
        report: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    return _document(["## graphdoctor", f"**{_verdict(report)}**"], _check_sections(report))


def render_comparison_markdown(comparison: DiagnosisComparison) -> str:
    """Two diagnoses side by side: verdict, numbers, new findings; what is gone or the same is folded.

    Args:
        comparison: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    head = ["## graphdoctor", f"**{comparison_verdict(comparison)}**", _sides(comparison)]
    return _document(head, _comparison_sections(comparison))


def _document(head: Sequence[str], sections: Iterable[_Section]) -> str:
    """Everything that fits, in order, and what was left out."""
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
        cut = f"\n\n_{counted(left, section.noun)} more: left out, or the comment would be too long._" if left else ""
        text += opening + "\n".join(shown) + cut + closing
    if left_out:
        text += f"\n\n_{counted(left_out, 'line')} more: left out, or the comment would be too long._"
    return text + "\n"


# The gate.


def _verdict(report: CheckReport) -> str:
    targets = report.targets
    crashed = sum(target.state == "crashed" for target in targets)
    failed = sum(target.state == "failed" for target in targets)
    failing = sum(len(target.failing) for target in targets)
    budgets = sum(not budget.is_kept for target in targets for budget in target.budgets)
    said = [f"{crashed} of {counted(len(targets), 'target')} crashed"] if crashed else []
    if failed:
        said.append(f"{failed} of {counted(len(targets), 'target')} failed")
    if failing:
        said.append(counted(failing, "new finding"))
    if budgets:
        said.append(f"{counted(budgets, 'budget')} not kept")
    if not said:
        said = [f"{counted(len(targets), 'target')} passed"]
    fixed = sum(len(target.fixed) for target in targets)
    if fixed:
        said.append(f"{fixed} fixed")
    return ", ".join(said) + "."


def _check_sections(report: CheckReport) -> Iterator[_Section]:
    head = (
        "| target | | new | break sites | recompiles | graphs | coverage |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    yield _Section([_target_row(target) for target in report.targets], "target", head)
    yield _Section(list(_warnings(report)), "note")
    for target in report.targets:
        failing = [_finding(finding) for finding in target.failing]
        yield _Section(failing, "new finding", f"### New in {code(target.name)}\n\n")
    for target in report.targets:
        yield from _folded(target, "" if len(report.targets) == 1 else f" in {html_code(target.name)}")
    unused = [
        f"- {code(entry.file if entry.line is None else f'{entry.file}:{entry.line}')} {plain(', '.join(entry.codes))}"
        for entry in report.unused_ignores
    ]
    yield _Section(unused, "entry", summary=f"Unused ignores: {len(unused)}")
    notes = [f"- {plain(note)}" for note in report.notes]
    yield _Section(notes, "note", summary=f"Notes: {len(notes)}")
    skipped = [f"- {code(name)}" for name in report.skipped]
    yield _Section(skipped, "target", summary=f"Not run, since no given file is reached by them: {len(skipped)}")


def _target_row(target: TargetCheck) -> str:
    summary = target.diagnosis.summary if target.diagnosis else None
    cells = [
        code(target.name),
        target.state if target.state == "passed" else f"**{target.state}**",
        UNKNOWN if target.state == "crashed" else str(len(target.failing)),
        _measured(target, summary, "max-breaks", lambda found: str(found.break_sites)),
        _measured(target, summary, "max-recompiles", lambda found: str(found.recompiles)),
        _measured(target, summary, "max-graphs", lambda found: str(found.graphs)),
        _measured(target, summary, "min-coverage", lambda found: known_share(found.coverage)),
    ]
    return f"| {' | '.join(cells)} |"


def _measured(target: TargetCheck, summary: Summary | None, budget: str, shown: Callable[[Summary], str]) -> str:
    """A number, in bold with its limit where it is not kept."""
    broken = [limit for limit in target.budgets if limit.name == budget and not limit.is_kept]
    if broken:
        return f"**{budget_text(broken[0])}**"
    return UNKNOWN if summary is None else shown(summary)


def _warnings(report: CheckReport) -> Iterator[str]:
    for target in report.targets:
        if target.state == "crashed":
            yield f"- {code(target.name)} crashed: {plain(target.error or 'it could not be run to its end')}"
        if target.is_other_torch:
            yield (
                f"- {code(target.name)}: the baseline has nothing of this torch; "
                "new and fixed findings can come from the upgrade."
            )


def _folded(target: TargetCheck, where: str) -> Iterator[_Section]:
    failing = {finding.fingerprint for finding in target.failing}
    below = [_finding(finding) for finding in target.new if finding.fingerprint not in failing]
    yield _Section(below, "finding", summary=f"New, below what fails{where}: {len(below)}")
    fixed = [
        f"- **{plain(entry.code)}** {code(entry.file)} in {code(entry.function)}: {sentence(entry.message)}"
        for entry in target.fixed
    ]
    yield _Section(fixed, "finding", summary=f"Fixed{where}: {len(fixed)}, dropped by <code>baseline --update</code>")
    grown = {finding.fingerprint for finding in target.grown}
    known = [
        _line(finding) + (f" ({times(finding.count)}, more often)" if finding.fingerprint in grown else "")
        for finding in target.known
    ]
    yield _Section(known, "finding", summary=f"In the baseline{where}: {len(known)}")
    ignored = [
        _line(entry.finding) + f" (by {entry.by}{': ' + plain(entry.reason) if entry.reason else ''})"
        for entry in target.ignored
    ]
    yield _Section(ignored, "finding", summary=f"Ignored{where}: {len(ignored)}")


# Two diagnoses.


def _sides(comparison: DiagnosisComparison) -> str:
    return f"Before: {_side(comparison.before)}  \nAfter: {_side(comparison.after)}"


def _side(side: Side) -> str:
    first, *rest = side_parts(side)
    named = f" ({code(side.name)})" if side.name else ""
    return " · ".join([code(first), *map(plain, rest)]) + named


def _comparison_sections(comparison: DiagnosisComparison) -> Iterator[_Section]:
    rows = [
        f"| {label} | {before} | {f'**{after}**' if before != after else after} | {ratio} |"
        for label, before, after, ratio in compared_rows(comparison.numbers)
    ]
    yield _Section(rows, "number", "| | before | after | after/before |\n| --- | ---: | ---: | ---: |\n")
    made = [f"- {plain(mismatch.message)}" for mismatch in comparison.mismatches]
    yield _Section(made, "difference", summary=f"Differences in how they were made: {len(made)}")
    yield _Section([_finding(finding) for finding in comparison.new], "new finding", "### New\n\n")
    worse = [pair for pair in comparison.same if {"severity", "count"} & set(pair.changes)]
    yield _Section([_same(pair) for pair in worse], "finding", summary=f"Same, but changed: {len(worse)}")
    gone = [_line(finding) for finding in comparison.gone]
    yield _Section(gone, "finding", summary=f"Gone: {len(gone)}")
    same = [_same(pair) for pair in comparison.same if pair not in worse]
    yield _Section(same, "finding", summary=f"Same: {len(same)}")
    before, after = comparison.before.hidden_findings, comparison.after.hidden_findings
    if before or after:
        hidden = f"_Hidden by --own-code, --select or --ignore: {before} before, {after} after._"
        yield _Section([hidden], "note")


def _same(pair: SameFinding) -> str:
    was = f" (was line {pair.before.location.line})" if "line" in pair.changes else ""
    changed = changed_text(pair, has_costs=False)
    return _line(pair.after) + was + (f"; {changed}" if changed else "")


# Findings.


def _line(finding: Finding) -> str:
    location = finding.location
    return f"- **{plain(finding.code)}** {code(f'{location.shown_file}:{location.line}')} {sentence(finding.message)}"


def _finding(finding: Finding) -> str:
    """A finding that asks for something: its function and the first suggestion too."""
    location = finding.location
    place = f"{code(f'{location.shown_file}:{location.line}')} in {code(location.function)}"
    text = f"- **{plain(finding.code)}** {finding.severity} {place}  \n  {sentence(finding.message)}"
    tries = [suggested(fix, sentence(fix.title)) for fix in worth_trying(finding.fixes)[:1]]
    return "  \n  Try: ".join([text, *tries])
