"""The fixes that were tried: each finding with its edits and verdicts, then all verified fixes together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import kind_text
from graphdoctor.views.cards import closing, finding_card, partial, title_line, unknown_rows
from graphdoctor.views.finding_cards import fix_parts, verdict_label
from graphdoctor.views.outcome import applied_fixes, distinct_fixes, outcome
from graphdoctor.views.parts import Row, Rows
from graphdoctor.views.terminal import shown_parts
from graphdoctor.views.terminal_lines import NARROW, Code, Command, clean, labeled_rows, write
from graphdoctor.views.words import (
    applied_snippets,
    apply_command,
    clusters,
    measured_rows,
    timed_rows,
    uncovered_fixes,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis, Finding
    from graphdoctor.facts.fixes import Treatment, Verdict
    from graphdoctor.facts.trials import Difference


def render_fixes(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False, is_written: bool = False) -> None:
    """Write the fixes that were tried to a terminal.

    Args:
        diagnosis: What to show, with its ``treatment``.
        console: Where to.
        is_verbose: Show every fix that was tried, and torch's full messages.
        is_written: The verified edits are being written.
    """
    treatment = diagnosis.treatment
    write(console, title_line(diagnosis))
    write(console, Text())
    for line in partial(diagnosis):
        write(console, line)
    findings = [finding for finding in diagnosis.findings if _is_treated(finding)]
    if treatment is None or not findings:
        write(console, Text("Nothing to fix: no graph breaks and no recompiles.", style="bold green"))
        return
    write(console, _headline(treatment))
    cards = list(clusters(findings))
    gone = [] if is_verbose else [cluster for cluster in cards if _is_fixed_by_others(cluster)]
    for cluster in cards:
        if cluster in gone:
            continue
        write(console, Text())
        for renderable in finding_card(cluster, is_verbose=is_verbose):
            write(console, renderable)
    for renderable in (*_gone(gone), *treatment_sections(diagnosis, treatment, is_verbose=is_verbose)):
        write(console, renderable)
    for renderable in unknown_rows(diagnosis):
        write(console, renderable)
    for line in closing(diagnosis):
        write(console, Text())
        write(console, line)
    for renderable in ending(diagnosis, treatment, is_written=is_written):
        write(console, renderable)


def _is_treated(finding: Finding) -> bool:
    skip = finding.cuda_graph_skip
    return finding.code.startswith(("GD1", "GD2", "GD4")) or (skip is not None and skip.is_on_gpu)


def treatment_sections(diagnosis: Diagnosis, treatment: Treatment, *, is_verbose: bool) -> Iterator[RenderableType]:
    """What comes after the findings: fixes for what showed later, all verified fixes together, what is left.

    Args:
        diagnosis: The findings that were shown.
        treatment: What was tried.
        is_verbose: Show every fix that was tried.
    """
    yield from _later(diagnosis, treatment, is_verbose=is_verbose)
    yield from _together(treatment)
    yield from _left(treatment)


def _headline(treatment: Treatment) -> Text:
    tried = distinct_fixes([fix for fix in treatment.tried if fix.verdict != "not tried"])
    verified, contained = _count(treatment, "verified"), _count(treatment, "contained")
    if tried:
        counts = f"{verified} verified, {contained} contained" if contained else f"{verified} verified"
        text = f"{_fixes(len(tried))} tried, {counts}."
        return Text(text, style="bold green" if verified or contained else "bold yellow")
    return clean(_untried(treatment), "bold yellow")


def _count(treatment: Treatment, verdict: Verdict) -> int:
    return len(distinct_fixes([fix for fix in treatment.tried if fix.verdict == verdict]))


def _untried(treatment: Treatment) -> str:
    """Why nothing was tried, in a sentence."""
    causes = {fix.untried_cause for fix in treatment.tried if fix.untried_cause}
    reasons = {fix.reason for fix in treatment.tried if fix.reason}
    if treatment.notes:
        return f"Suggested, not tried: {treatment.notes[0]}."
    if not treatment.tried:
        return "There was no fix to try."
    if causes == {"unsafe"}:
        return f"No safe fix is known. --unsafe-fixes tries {_fixes(len(distinct_fixes(treatment.tried)), 'unsafe ')}."
    return f"Suggested, not tried: {reasons.pop() if len(reasons) == 1 else 'no trial was run'}."


def _fixes(number: int, kind: str = "") -> str:
    return f"{number} {kind}fix" if number == 1 else f"{number} {kind}fixes"


def _is_fixed_by_others(cluster: Sequence[Finding]) -> bool:
    """Nothing was tried for it, and the fixes of other findings removed it."""
    return all(finding.is_mended for finding in cluster) and all(
        fix.verdict == "not tried" for finding in cluster for fix in finding.fixes
    )


def _gone(clusters: Sequence[Sequence[Finding]]) -> Iterator[RenderableType]:
    """Findings that need no fix of their own, one line each."""
    if not clusters:
        return
    yield Text()
    yield Text("Also gone with these fixes", style="bold")
    for cluster in clusters:
        for finding in cluster:
            place = f"{finding.location.shown_file}:{finding.location.line}"
            line = Text("  ").append_text(clean(f"{finding.code} ", "bold yellow")).append_text(clean(place))
            yield line.append_text(clean(f"  {finding.message}", "dim"))


def _later(diagnosis: Diagnosis, treatment: Treatment, *, is_verbose: bool) -> Iterator[RenderableType]:
    """Fixes for findings that showed only after other fixes were applied."""
    later = [fix for fix in uncovered_fixes(treatment, diagnosis.findings) if is_verbose or fix.is_applied]
    if not later:
        return
    yield Text()
    yield Text("Found after these fixes", style="bold")
    for fix in later:
        yield Text("  ").append_text(clean(f"{fix.code} ", "bold yellow")).append_text(clean(fix.place))
        rows = Rows((Row(verdict_label(fix.verdict), fix_parts(fix)),))
        yield from shown_parts(rows, width=NARROW, is_verbose=is_verbose)


def _together(treatment: Treatment) -> Iterator[RenderableType]:
    if treatment.after is None:
        return
    count = len(applied_fixes(treatment))
    titles = {1: "The verified fix", 2: "Both verified fixes together"}
    yield Text()
    yield Text(titles.get(count, f"All {count} verified fixes together"), style="bold")
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    table.add_column("change" if treatment.times or treatment.cold_compile else "")
    for label, before, after in measured_rows(treatment.before, treatment.after):
        table.add_row(label, before, after, "")
    for label, before, after, change in timed_rows(treatment):
        table.add_row(clean(label), before, after, change)
    yield Padding(table, (0, 0, 0, 2))
    for place, snippet in applied_snippets(treatment):
        yield Text()
        yield clean(f"  {place or 'Also'}:", "dim")
        yield Padding(Code(snippet), (0, 0, 0, 4))
    yield Text()
    yield clean(_results(treatment), "dim")


def _results(treatment: Treatment) -> str:
    kinds = list(treatment.compared.kinds) if treatment.compared else []
    named = list(map(kind_text, kinds))
    differences = treatment.compared.differences if treatment.compared else ()
    told = ", ".join(f"{kind_text(found.kind)} ({_difference(found)})" for found in differences)
    differs = f" Different: {told}." if told else ""
    under = f", under {treatment.backend}" if treatment.backend else ""
    others = {fix.backend for fix in treatment.tried if fix.is_applied and fix.backend} - {treatment.backend}
    alone = "".join(f" Single fixes were tried under {name}." for name in sorted(others))
    what = ", ".join(named) or "nothing"
    return f"Compared with the program without torch.compile{under}: {what}.{differs}{alone if under else ''}"


def _difference(found: Difference) -> str:
    if found.largest is not None:
        return f"{found.where} by {found.largest:.3g}"
    # A text has one place, which its kind names already.
    place = "" if found.where == kind_text(found.kind) else found.where
    return ": ".join(part for part in (place, found.detail) if part)


def ending(diagnosis: Diagnosis, treatment: Treatment, *, is_written: bool = False) -> Iterator[RenderableType]:
    """The last lines: what changed, and how to keep it.

    Args:
        diagnosis: What was shown.
        treatment: What was tried.
        is_written: The edits are being written.
    """
    yield Text()
    yield clean(outcome(treatment, diagnosis.target), "bold yellow" if treatment.after is None else "bold green")
    if is_written:
        return
    edits = [fix for fix in applied_fixes(treatment) if fix.diff is not None]
    command = apply_command(treatment, diagnosis.target)
    if edits and command is not None:
        rest = " (add the lines above yourself)" if applied_snippets(treatment) else ""
        yield Text(f"To write {'the edit' if len(edits) == 1 else f'the {len(edits)} edits'}{rest}:")
        yield Padding(Command(command), (0, 0, 0, 2))


def _left(treatment: Treatment) -> Iterator[RenderableType]:
    if treatment.left:
        yield Text()
        yield Text("Not fixed", style="bold")
        for left in treatment.left:
            code = clean(f"{left.code} ", "bold yellow")
            yield Text("  ").append_text(code).append_text(clean(f"{left.place}  {left.message}"))
            yield labeled_rows([("because", clean(left.reason))])
    if treatment.notes:
        yield Text()
        yield labeled_rows([("note", clean(note)) for note in treatment.notes], style="dim")
