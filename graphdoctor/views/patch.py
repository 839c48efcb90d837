"""A patch that was tried: whether it holds, why, and what it changes.

Comes in: a diagnosis with its treatment. Goes out: parts of a view.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.fixes import WORKING, Treatment, TriedPatch
from graphdoctor.views import words
from graphdoctor.views.parts import (
    Block,
    Code,
    Diff,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Verdict,
)
from graphdoctor.views.reasons import reason_text, reasons_text

_BAD = {
    "no effect": "gains nothing",
    "moved": "only moves the break",
    "makes it worse": "makes it worse",
    "changes results": "changes results",
    "failed": "fails",
    "unproven": "isn't proven",
}
"""What a patch does that doesn't hold, by its verdict."""


def patch_outcome(patch: TriedPatch) -> str:
    """Say if a patch holds, and why, in one sentence."""
    why = reasons_text(patch.reasons)
    name = "The patch" if patch.name == "-" else patch.name
    if patch.verdict in WORKING:
        said = "; ".join(filter(None, (words.same_text(patch.compared, patch.attacked), why)))
        return f"{name} holds{f': {said}' if said else ''}."
    return f"{name} {_BAD.get(patch.verdict, patch.verdict)}{f': {why}' if why else ''}."


def patch_parts(diagnosis: Diagnosis, treatment: Treatment, patch: TriedPatch) -> Iterator[Block]:
    """Show a patch: its verdict, counts and times, breaks that went and came, and what is left."""
    yield Verdict(patch_outcome(patch), "good" if patch.verdict in WORKING else "bad")
    worst = patch.attacked and patch.attacked.worst
    if worst and worst.code and patch.verdict not in WORKING:
        yield Note("Before the first call:", "dim")
        yield Code(worst.code)
    if patch.after is not None:
        counts = (
            row for row in words.count_changes(treatment.before, patch.after) if row[1] != row[2]
        )
        rows = (*counts, *words.time_changes(treatment))
        yield Table(
            ("#count", "#before", "#after", "change"), rows, "number", label="Before and after"
        )
    sites = (
        *(("gone", site) for site in patch.sites_gone),
        *(("new", site) for site in patch.sites_new),
    )
    yield Section(
        "Breaks", Rows((Row(label, Note(Span(site))) for label, site in sites), "break site")
    )
    left = (finding for finding in diagnosis.findings if finding.code.startswith(("GD1", "GD2")))
    rest = (
        Row(one.code, Note((Span(one.site), f"  {one.message}")))
        for one in left
        if not one.is_mended
    )
    yield Section("Still there", Rows(rest, "finding")) if patch.verdict in WORKING else Rows(())
    if patch.lines_not_run:
        places = ", ".join(patch.lines_not_run)
        yield Note(
            f"Nothing that was tried runs what it changes at {places}, so that isn't proven.",
            "warning",
        )
    yield Section("The patch", Diff(treatment.diff), show="long")
    yield Rows((Row("note", Note(reason_text(note), "dim")) for note in treatment.notes), "note")
