"""Fixes that were tried, as Markdown for a pull request or an issue.

Comes in: a diagnosis with its treatment. Goes out: GitHub's Markdown, no longer than GitHub accepts: what changed, the
verified fixes together, what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphdoctor.views.markdown import Section, document
from graphdoctor.views.markdown_text import code, fenced, plain, sentence
from graphdoctor.views.outcome import applied_fixes, distinct_fixes, outcome
from graphdoctor.views.words import (
    applied_snippets,
    apply_command,
    measured_rows,
    timed_rows,
    title_parts,
)

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.fixes import Treatment, TriedFix


def render_fixes_markdown(diagnosis: Diagnosis) -> str:
    """Fixes that were tried: what changed, the numbers before and after, the edits, what wasn't fixed.

    Args:
        diagnosis: What to write, with its ``treatment``.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    first, *rest = title_parts(diagnosis)
    head = ["## graphdoctor", " · ".join([code(first), *map(plain, rest)])]
    treatment = diagnosis.treatment
    if treatment is None:
        return document([*head, "No fixes were tried."], ())
    return document([*head, f"**{sentence(outcome(treatment, diagnosis.target))}**"], _sections(diagnosis, treatment))


def _sections(diagnosis: Diagnosis, treatment: Treatment) -> Iterator[Section]:
    if treatment.after is not None:
        yield Section(
            list(_numbers(treatment)), "number", "| | before | after | change |\n| --- | ---: | ---: | ---: |\n"
        )
        applied = [_line(fix) for fix in applied_fixes(treatment)]
        yield Section(applied, "fix", "### Fixes that work together\n\n")
        yield Section(list(_to_write(diagnosis, treatment)), "change")
    left = [
        f"- **{plain(item.code)}** {code(item.place)} {sentence(item.message)}  \n  {sentence(item.reason)}"
        for item in treatment.left
    ]
    yield Section(left, "finding", "### Not fixed\n\n")
    kept = applied_fixes(treatment)
    others = [fix for fix in distinct_fixes(treatment.tried) if fix not in kept]
    yield Section([_line(fix) for fix in others], "fix", summary=f"Other suggestions: {len(others)}")
    notes = [f"- {sentence(note)}" for note in treatment.notes]
    yield Section(notes, "note", summary=f"Notes: {len(notes)}")


def _numbers(treatment: Treatment) -> Iterator[str]:
    if treatment.after is not None:
        for label, before, after in measured_rows(treatment.before, treatment.after):
            yield f"| {label} | {before} | {f'**{after}**' if before != after else after} | |"
    for label, *cells in timed_rows(treatment):
        yield f"| {' | '.join([plain(label), *cells])} |"


def _line(fix: TriedFix) -> str:
    reason = f"  \n  {sentence(fix.reason)}" if fix.reason else ""
    return f"- **{plain(fix.code)}** {code(fix.place)} {sentence(fix.title)}: {fix.verdict}{reason}"


def _to_write(diagnosis: Diagnosis, treatment: Treatment) -> Iterator[str]:
    """The edits, the command that writes them, and what is to be set by hand."""
    if treatment.diff:
        yield "\n".join(fenced(treatment.diff.rstrip("\n"), "diff"))
        command = apply_command(treatment, diagnosis.target)
        if command is not None:
            yield "\n".join(("\nTo write the edits:\n", *fenced(command, "sh")))
    for place, snippet in applied_snippets(treatment):
        above = f"\n{sentence(place)}:\n" if place else "\nAlso:\n"
        yield "\n".join((above, *fenced(snippet, "python")))
