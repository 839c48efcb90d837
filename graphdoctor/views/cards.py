"""The parts of every view on the terminal: the title, the cards of findings, labeled rows.

Text from outside, such as paths, messages and source lines, goes through ``clean`` and never through markup, so a path
such as ``[red]/x.py`` is shown as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from graphdoctor.facts.fixes import WORKING
from graphdoctor.facts.stack import PROGRAM_ORIGINS
from graphdoctor.facts.wording import counted, partial_text
from graphdoctor.views.printable import printable
from graphdoctor.views.terminal_lines import Code, Cut, Pointed, Prose, clean, clean_lines, diff_text, labeled_rows
from graphdoctor.views.words import (
    base_name,
    bucket_texts,
    caused_text,
    cost_text,
    first_sentence,
    host_gap_note,
    other_gaps,
    place_text,
    snippet_place,
    title_parts,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis, Finding, Fix, Location
    from graphdoctor.facts.fixes import TriedFix, Verdict
    from graphdoctor.facts.stack import StackEntry

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_MAX_COMPILE_IDS = 6
_MAX_TRIED = 4
_MAX_OTHERS = 3


def title_line(diagnosis: Diagnosis) -> Text:
    """What ran, on one line."""
    first, *rest = title_parts(diagnosis)
    title = Text().append_text(clean(first, "bold"))
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    return title


# Findings.


def finding_card(
    cluster: Sequence[Finding], *, is_verbose: bool, has_path: bool = True, others: Sequence[Finding] = ()
) -> Iterator[RenderableType]:
    """A card: headings, the line, torch's message, what it caused, suggestions.

    Args:
        cluster: Findings that ``clusters`` grouped.
        is_verbose: Add torch's full message, every hint and every suggestion.
        has_path: Show the whole call path, and the calls in which it recompiled; otherwise the user's own line.
        others: More findings that the same suggestion is for, named in a line each.
    """
    first = cluster[0]
    yield from _headings(cluster)
    yield from _source(first.location)
    rows: list[tuple[str, RenderableType]] = []
    if first.torch_reason and (is_verbose or first.reasons):
        words = first.torch_reason if is_verbose else first_sentence(first.torch_reason)
        label = first.torch_id or "torch"
        rows.append((label, clean_lines(words)))
    hints = first.hints if is_verbose else first.hints[:1] if not any(f.fixes for f in cluster) else ()
    rows += [("hint", clean_lines(hint)) for hint in hints]
    if first.break_effects or first.compile_ids:
        rows.append(("caused" if first.break_effects else "seen in", _caused(first)))
    splits = (finding.ddp_split for finding in cluster if finding.ddp_split is not None)
    rows += [("part", Prose(clean(text))) for split in splits for text in bucket_texts(split)]
    rows += _way(cluster, has_path=has_path)
    costs = [cost_text(finding.cost) for finding in cluster if finding.cost]
    if costs and costs[0]:
        rows.append(("cost", clean(costs[0])))
    rows += _fix_rows(cluster, is_verbose=is_verbose)
    rows += _other_rows(others)
    yield labeled_rows(rows)


def short_card(cluster: Sequence[Finding]) -> RenderableType:
    """A card without details: headings and the place, a line each, cut where it doesn't fit.

    Args:
        cluster: Findings that ``clusters`` grouped.
    """
    return Cut([*_headings(cluster), _place(cluster[0].location)])


def _headings(cluster: Sequence[Finding]) -> Iterator[Text]:
    for finding in cluster:
        heading = clean(f"{finding.code} ", _STYLES[finding.severity])
        yield heading.append_text(clean(finding.message, "bold"))


def _other_rows(others: Sequence[Finding]) -> Iterator[tuple[str, RenderableType]]:
    """More findings that the same suggestion is for."""
    for number, finding in enumerate(others[:_MAX_OTHERS]):
        text = clean(f"{finding.code} {base_name(finding.location.file)}:{finding.location.line}")
        text.append_text(clean(f" in {finding.location.function}", "dim"))
        yield "also for" if number == 0 else "", text
    if len(others) > _MAX_OTHERS:
        yield "", Text(f"and {counted(len(others) - _MAX_OTHERS, 'more finding')}", "dim")


def _way(cluster: Sequence[Finding], *, has_path: bool) -> Iterator[tuple[str, RenderableType]]:
    """How a finding was reached, and the other lines that have to do with it."""
    first = cluster[0]
    if has_path:
        path = _call_path(first)
        if path is not None:
            yield "path", path
    elif first.location.origin != "user":
        own = [entry for entry in first.user_stack if entry.origin == "user"]
        if own:
            yield (
                "called at",
                _related_text(base_name(own[-1].file), own[-1].line, f"in {own[-1].qualname or own[-1].function}"),
            )
    # A recompile's are the calls that it happened in.
    related = [location for finding in cluster for location in finding.related]
    shown = related if has_path or first.break_effects else []
    yield from (("see also", _related_text(place.shown_file, place.line, place.note)) for place in shown)


def _place(location: Location) -> Text:
    line = Text("  ").append("--> ", "blue").append_text(clean(location.shown_file, "bold"))
    line.append(f":{location.line}")
    if location.column is not None:
        line.append(f":{location.column}")
    line.append(" in ").append_text(clean(location.function))
    if location.package:
        line.append_text(clean(f"  [{location.package}]", "magenta"))
    return line


def _source(location: Location) -> Iterator[RenderableType]:
    yield _place(location)
    if location.text is None:
        return
    start = -1 if location.column is None else location.column - 1 - (location.indent or 0)
    # An expression of several lines is marked to the end of its first.
    end = location.end_column - 1 - (location.indent or 0) if location.end_column else len(location.text)
    is_marked = 0 <= start < end
    yield Pointed(location.line, printable(location.text), start if is_marked else None, end)


def _caused(finding: Finding) -> Text:
    caused = caused_text(finding)
    text = clean(caused)
    if finding.compile_ids:
        shown = finding.compile_ids[:_MAX_COMPILE_IDS]
        more = len(finding.compile_ids) - len(shown)
        ids = " ".join(shown) + (f" and {more} more" if more else "")
        text.append_text(clean(f"  [{ids}]" if caused else ids, "dim"))
    return text


def _call_path(finding: Finding) -> Text | None:
    """The call path through the user's and packages' code; torch's own lines are only counted."""
    if len([entry for entry in finding.user_stack if entry.origin in PROGRAM_ORIGINS]) < 2:
        return None
    text = Text()
    for is_torch, group in groupby(finding.user_stack, lambda entry: entry.origin in ("torch", "stdlib")):
        entries = list(group)
        if is_torch:
            continue
        for entry in entries:
            if text:
                text.append(" → ", "dim")
            text.append_text(clean(f"{entry.qualname or entry.function}"))
            text.append_text(clean(f" {_short_place(entry)}", "dim"))
    folded = sum(entry.origin in ("torch", "stdlib") for entry in finding.user_stack)
    if folded:
        text.append(f"  ({counted(folded, 'line')} of torch and Python hidden)", "dim")
    return text


def _short_place(entry: StackEntry) -> str:
    return f"{base_name(entry.file)}:{entry.line}"


def _related_text(file: str, line: int, note: str | None) -> Text:
    text = clean(f"{file}:{line}")
    if note:
        text.append_text(clean(f"  {note}", "dim"))
    return text


def _fix_rows(cluster: Sequence[Finding], *, is_verbose: bool) -> Iterator[tuple[str, RenderableType]]:
    """Suggestions: those tried with their verdicts, then the others; a few of each unless verbose."""
    fixes = list(dict.fromkeys(fix for finding in cluster for fix in finding.fixes))
    tried = [fix for fix in fixes if fix.verdict != "not tried" or fix.diff]
    if not any(fix.verdict in WORKING for fix in tried) and all(finding.is_mended for finding in cluster):
        yield "gone", Text("with the verified fixes of other findings", style="green")
        if not is_verbose:
            return
    rest = [fix for fix in fixes if fix not in tried]
    if not is_verbose:
        is_fixed = any(fix.verdict in WORKING for fix in tried)
        rest = [] if is_fixed else rest[: max(2 - len(tried), 0)]
        hidden, tried = tried[_MAX_TRIED:], tried[:_MAX_TRIED]
        rest = rest if not hidden else []
    for fix in tried:
        yield verdict_label(fix.verdict), fix_text(fix, is_verbose=is_verbose)
    for number, fix in enumerate(rest):
        yield "try" if number == 0 and not tried else "or", fix_text(fix, is_verbose=is_verbose)


_LABELS: dict[Verdict, str] = {"changes results": "changes", "makes it worse": "worse", "not tried": "untried"}


def verdict_label(verdict: Verdict) -> str:
    """A verdict as a row's label."""
    return _LABELS.get(verdict, verdict)


def fix_text(fix: Fix | TriedFix, *, is_verbose: bool) -> RenderableType:
    """A suggestion with the reason for its verdict, and its edit, or its snippet and where that goes.

    Args:
        fix: The suggestion.
        is_verbose: Show the whole diff; otherwise its changed lines, and only if the fix may be useful.
    """
    text = clean(fix.title, "green" if fix.verdict in WORKING or fix.verdict == "not tried" else "")
    if fix.verdict == "changes results":
        text.append("\n").append_text(clean(f"results differ: {fix.reason}", "red"))
    elif fix.reason:
        text.append("\n").append_text(clean(fix.reason, "dim"))
    is_useful = is_verbose or fix.verdict in WORKING or fix.verdict in ("not tried", "unproven")
    if fix.diff and is_useful:
        return Group(Prose(text), diff_text(fix.diff, is_whole=is_verbose))
    if fix.snippet and is_useful:
        place = snippet_place(fix)
        if place is not None:
            text.append("\n").append_text(clean(f"{place_text(place)}:", "dim"))
        return Group(Prose(text), Code(fix.snippet))
    return Prose(text)


def partial(diagnosis: Diagnosis) -> Iterator[Text]:
    """That the run ended early, which comes before all counts."""
    if diagnosis.is_partial:
        yield Text().append("PARTIAL  ", "bold red").append_text(clean(partial_text(diagnosis), "red"))


def unknown_rows(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """What torch or the recording couldn't tell."""
    gaps = other_gaps(diagnosis)
    if gaps:
        yield Text()
        yield labeled_rows((("unknown", clean(gap.message)) for gap in gaps), style="dim")


def closing(diagnosis: Diagnosis, *, prefix: str = "GD") -> Iterator[Text]:
    """The last lines: what costs leave out, what is hidden, and where to read more.

    Args:
        diagnosis: What was shown.
        prefix: Prefix of the codes of the findings that were shown.
    """
    if (note := host_gap_note(diagnosis.findings)) is not None:
        yield Text(note, "dim")
    hidden = diagnosis.summary.hidden_findings
    if hidden:
        yield Text(f"{counted(hidden, 'finding')} hidden by --own-code, --select or --ignore.", "dim")
    codes = sorted({finding.code for finding in diagnosis.findings if finding.code.startswith(prefix)})
    if codes:
        yield clean(f"Read more: graphdoctor rule {codes[0]}", "dim")
