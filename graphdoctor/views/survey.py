"""A survey on the terminal: the answer by variant and family, what costs most, what failed, then all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from graphdoctor.facts.wording import shortened
from graphdoctor.views import survey_words as words
from graphdoctor.views.survey_failures import Failure, failures
from graphdoctor.views.terminal_lines import (
    CELL_TONES,
    ONE_LINE,
    Prose,
    cell_figure,
    clean,
    grid,
    labeled_rows,
    write_report,
)
from graphdoctor.views.wrapping import cut, longest_name, prose_breaks

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from graphdoctor.facts.survey import SharedCause, SurveyReport, SurveyRow
    from graphdoctor.views.parts import Tone
    from graphdoctor.views.survey_words import RowColumn

_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}
_SEVERITIES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_FAMILIES_FROM = 2
_MAX_FAMILIES = 6
_MAX_WHOLE = 3
"""Causes that are shown in full; the others are a line each."""
_MAX_FAILURES = 8
_MAX_NOTED = 4
_MAX_NOTES = 8
_MAX_ROWS = 20
"""Rows that are always shown."""
_LONGEST_ERROR = 200
_HEADING = 8
"""Cells that a word of a heading may take, where its figures take less."""
_WIDEST_TEXT = 28
"""Cells of a text in a table."""


def render_survey(report: SurveyReport, console: Console, *, is_verbose: bool = False) -> None:
    """Write a survey to a terminal.

    Args:
        report: What to show.
        console: Where to.
        is_verbose: Add all rows, families, failures and causes in full, and what each variant changes.
    """
    write_report(console, _report(report, console.width, is_verbose=is_verbose), _answer(report))


def _report(report: SurveyReport, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    first, *rest = words.title_parts(report)
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    yield title
    yield Text()
    yield from _answer(report)
    yield from _groups(report, width, is_verbose=is_verbose)
    yield from _causes(report, is_verbose=is_verbose)
    yield from _export_causes(report, is_verbose=is_verbose)
    yield from _failures(report, width, is_verbose=is_verbose)
    yield from _noted(report, is_verbose=is_verbose)
    yield from _rows(report, width, is_verbose=is_verbose)
    yield from _closing(report, is_verbose=is_verbose)


def _answer(report: SurveyReport) -> Iterator[Text]:
    said, tone = words.verdict(report)
    yield clean(said, _TONES[tone])
    if (missing := words.missing_text(report)) is not None:
        yield clean(missing, "yellow")


# Variants and families.


def _groups(report: SurveyReport, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    variants = words.variant_grid(report)
    if variants.rows:
        yield Text()
        yield _table(variants, width, len(variants.rows))
    unjudged = [("not judged", _named(names, text, report)) for names, text in words.unjudged_texts(report)]
    if unjudged:
        yield labeled_rows(unjudged, style="dim")
    if (means := words.means_text(report)) is not None:
        yield clean(means, "dim")
    families = words.family_grid(report)
    if len(families.rows) >= _FAMILIES_FROM:
        noun = "more families"
        if _least_width(families, width) > width:
            families, noun = words.family_rows(report), "more rows"
        shown = len(families.rows) if is_verbose else _MAX_FAMILIES
        yield Text()
        yield _table(families, width, shown)
        yield from _more(len(families.rows) - shown, noun)


def _named(names: str, text: str, report: SurveyReport) -> Text:
    return clean(f"{names}: {text}" if len(report.variants) > 1 else text)


def _table(shown: words.Grid, width: int, most: int) -> Table:
    """Where there is too little room, headings are as narrow as their figures, which never wrap."""
    rows = shown.rows[:most]
    table = grid(width)
    table.add_column(Prose(clean(shown.headings[0])))
    headings = [clean(heading) for heading in shown.headings[1:]]
    widest = _widest(shown, width)
    wanted = [max(cell_len(heading.plain), wide) for heading, wide in zip(headings, widest, strict=True)]
    if _longest_name(shown) + sum(wanted) + len(wanted) * _gap(width) > width:
        headings = [_broken(text, max(wide, _HEADING)) for text, wide in zip(headings, widest, strict=True)]
    for heading in headings:
        table.add_column(Prose(heading), justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(Prose(clean(name, "bold")), *(cell_figure(cell, is_wide=width >= ONE_LINE) for cell in cells))
    return table


def _least_width(shown: words.Grid, width: int) -> int:
    """Cells that a table needs on a terminal of this width, with headings in several lines."""
    widest = _widest(shown, width)
    headings = (longest_name(clean(heading).plain) for heading in shown.headings[1:])
    least = [max(heading, wide) for heading, wide in zip(headings, widest, strict=True)]
    return _longest_name(shown) + sum(least) + len(least) * _gap(width)


def _longest_name(shown: words.Grid) -> int:
    names = [shown.headings[0], *(name for name, _ in shown.rows)]
    return min(max(cell_len(clean(name).plain) for name in names), _WIDEST_TEXT)


def _widest(shown: words.Grid, width: int) -> list[int]:
    """Cells of the widest figure of each column."""
    is_wide = width >= ONE_LINE
    columns = zip(*(cells for _, cells in shown.rows), strict=True)
    lines = ([line for cell in column for line in cell_figure(cell, is_wide=is_wide).lines] for column in columns)
    return [max(cell_len(line.plain) for line in column) for column in lines]


def _gap(width: int) -> int:
    """Cells between two columns."""
    return grid(width).padding[1]


def _broken(heading: Text, width: int) -> Text:
    parts = heading.divide(prose_breaks(heading.plain, width))
    for part in parts:
        part.rstrip()
    return Text("\n").join(parts)


def _more(number: int, noun: str) -> Iterator[Text]:
    if number > 0:
        yield Text(f"and {number:,} {noun} (-v shows all)", "dim")


# Causes.


def _causes(report: SurveyReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    causes = report.summary.causes
    if not causes:
        return
    yield Text()
    yield Text("What costs most over all targets", "bold")
    for number, cause in enumerate(causes):
        message = words.cause_message(cause)
        yield _whole(cause, message) if is_verbose or number < _MAX_WHOLE else _short(cause, message)
    if (more := words.more_causes_text(report)) is not None:
        yield clean(more, "dim")


def _export_causes(report: SurveyReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    causes = report.summary.export_causes
    if not causes:
        return
    yield Text()
    yield Text(words.EXPORTS_HEADING, "bold")
    for number, cause in enumerate(causes):
        # Those of one cause say the same, in whichever function.
        is_whole = is_verbose or number < _MAX_WHOLE
        yield _whole(cause, cause.message) if is_whole else _short(cause, cause.message)
    if (more := words.more_export_causes_text(report)) is not None:
        yield clean(more, "dim")


def _heading(cause: SharedCause) -> Text:
    heading = clean(f"{cause.code} ", _SEVERITIES[cause.severity])
    of = "" if (function := words.cause_function(cause)) is None else f" of {function}"
    return heading.append_text(clean(f"{words.cause_size(cause)}{of}", "bold"))


def _whole(cause: SharedCause, message: str) -> RenderableType:
    rows = [("at", clean(words.cause_place(cause), "dim"))]
    if cause.text:
        rows.append(("", clean(cause.text, "cyan")))
    if costs := words.cause_costs(cause):
        rows.append(("costs", clean(costs)))
    if (fix := words.cause_fix(cause)) is not None:
        rows.append(("fix" if fix[1] else "try", clean(fix[0], "green" if fix[1] else "")))
    return Group(Prose(_heading(cause).append_text(clean(f": {message}"))), labeled_rows(rows))


def _short(cause: SharedCause, message: str) -> RenderableType:
    fix = words.cause_fix(cause)
    heading = _heading(cause).append_text(clean(f": {message}"))
    if cause.functions == 1:
        heading.append_text(clean(f" · {words.cause_place(cause)}", "dim"))
    return Prose(heading.append(" · verified fix", "green") if fix is not None and fix[1] else heading)


# Failures, and rows to look at.


def _failures(report: SurveyReport, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    found = failures(report.rows)
    if not found:
        return
    shown = found if is_verbose else found[:_MAX_FAILURES]
    yield Text()
    yield Text("What failed", "bold")
    table = grid(width)
    table.add_column("outcome", max_width=width // 3)
    table.add_column("targets", justify="right", no_wrap=True)
    table.add_column("error")
    for failure in shown:
        tone = words.status_cell(failure.rows[0]).tone
        outcome = clean(words.outcome_text(failure.status, failure.stage), CELL_TONES[tone] if tone else "")
        table.add_row(Prose(outcome), f"{len(failure.targets):,}", _error(failure, report, is_verbose=is_verbose))
    yield table
    yield from _more(len(found) - len(shown), "more errors")


def _error(failure: Failure, report: SurveyReport, *, is_verbose: bool) -> RenderableType:
    names = clean(words.failure_names(failure, has_variants=len(report.variants) > 1), "dim")
    if failure.error is None:
        return Prose(names)
    text = failure.error if is_verbose else shortened(failure.error, _LONGEST_ERROR)
    return Group(Prose(clean(text)), Prose(names))


def _noted(report: SurveyReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    """Flaky and noisy rows, by name."""
    has_variants = len(report.variants) > 1
    flaky = [
        f"{words.row_name(row, has_variants=has_variants)}: {words.flaky_text(row)}"
        for row in report.rows
        if row.is_flaky
    ]
    shown = flaky if is_verbose else flaky[:_MAX_NOTED]
    rows = [("flaky", clean(text, "yellow")) for text in shown]
    if len(flaky) > len(shown):
        rows.append(("", Text(f"and {len(flaky) - len(shown):,} more (-v shows all)", "dim")))
    noisy = [words.row_name(row, has_variants=has_variants) for row in words.noisy_rows(report.rows)]
    if noisy:
        text = clean(words.some_names(noisy, len(noisy) if is_verbose else _MAX_NOTED), "yellow")
        if len(noisy) > _MAX_NOTED and not is_verbose:
            text.append(" (-v shows all)", "dim")
        rows += [("noisy", clean(f"{words.NOISY}:", "yellow")), ("", text)]
    if rows:
        yield Text()
        yield labeled_rows(rows)


# Rows.


def _rows(report: SurveyReport, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    if not report.rows:
        return
    yield Text()
    if len(report.rows) > _MAX_ROWS and not is_verbose:
        yield Text(f"-v shows all {len(report.rows):,} rows.", "dim")
        return
    columns = words.row_columns(report)
    most = {"name": width * 2 // 5}
    widths = [_width(column, report.rows, most.get(column.heading, _WIDEST_TEXT)) for column in columns]
    shown = _fitting(columns, widths, width)
    table = grid(width)
    for column, wide in zip(columns, widths, strict=True):
        if column in shown:
            right = not column.is_text and column.heading != "status"
            table.add_column(column.heading, justify="right" if right else "left", max_width=wide, no_wrap=True)
    for row in report.rows:
        cells = (_line(column, row, wide) for column, wide in zip(columns, widths, strict=True) if column in shown)
        table.add_row(*cells)
    yield table
    if left := [column.heading for column in columns if column not in shown]:
        yield clean(f"No room for {', '.join(left)}: --format csv and -o survey.html have all columns.", "dim")


def _width(column: RowColumn, rows: Sequence[SurveyRow], most: int) -> int:
    widest = max(cell_len(clean(column.cell(row).line).plain) for row in rows)
    return max(min(widest, most), cell_len(column.heading))


def _fitting(columns: Sequence[RowColumn], widths: Sequence[int], width: int) -> list[RowColumn]:
    """The columns that there is room for, the most important ones first."""
    gap = _gap(width)
    room = width + gap
    shown: list[RowColumn] = []
    for column, wide in sorted(zip(columns, widths, strict=True), key=lambda found: found[0].rank):
        if room >= wide + gap or not shown:
            shown.append(column)
            room -= wide + gap
    return shown


def _line(column: RowColumn, row: SurveyRow, width: int) -> Text:
    cell = column.cell(row)
    return Text(cut(clean(cell.line).plain, width), CELL_TONES[cell.tone] if cell.tone is not None else "")


# The end.


def _closing(report: SurveyReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    rows = []
    if is_verbose:
        rows += [("variant", clean(f"{each.name}: {words.settings_text(each)}", "dim")) for each in report.variants]
    notes = report.notes if is_verbose else report.notes[:_MAX_NOTES]
    rows += [("note", clean(note, "dim")) for note in notes]
    if rows:
        yield Text()
        yield labeled_rows(rows)
    yield from _more(len(report.notes) - len(notes), "more notes")
    if (took := words.took_text(report)) is not None:
        yield Text()
        yield clean(took, "dim")
