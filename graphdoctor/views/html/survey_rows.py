"""The rows of a survey for its page: a line of a table for each, and its details, packed for a script.

Comes in: rows, in the order of the survey. Goes out: what the template needs of each, and one value for ``packed`` in
which each text is held once, as many rows share tracebacks, messages and edits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup, escape

from graphdoctor.facts.survey import SURVEY_STATUSES
from graphdoctor.facts.wording import bytes_text, counted, duration, factor_text, percent, shortened, without_middle
from graphdoctor.views import survey_words as words
from graphdoctor.views.bench_words import seconds_text
from graphdoctor.views.parts import NOTHING, Cell, Drawing, Table, cell_line, plain_text
from graphdoctor.views.printable import printable_lines
from graphdoctor.views.survey_failures import error_text

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SurveyCause, SurveyReport, SurveyRow

MAX_ROWS = 4_000
"""Rows that a page has."""
_NO_COLUMN = ""
_MAX_CAUSES = 12
"""Findings of a row that its details have."""
_MAX_GAPS = 20
_MAX_CHARACTERS = 6_000
"""Of a traceback, an error or an edit."""
_MAX_LINE = 600
"""Of a message or a name."""
_MAX_TEXT = 4_000_000
"""Characters of all texts together; from then on, each is cut to ``_SCARCE``."""
_SCARCE = 200
_LONGEST_ERROR = 90
_LONGEST_ID = 60
_MAX_CHOICES = 300
"""Choices of a filter."""
_LONGEST_CHOICE = 60


@dataclass(frozen=True)
class _Filter:
    """A choice of what the table shows."""

    key: str
    label: str
    every: str
    choices: tuple[tuple[str, str], ...]


def rows_drawing(report: SurveyReport, pages: str | None, elsewhere: Table) -> Drawing:
    """The table of all rows, which sorts, filters, and opens each row.

    Args:
        report: The survey.
        pages: The folder under which pages of pieces are, relative to this page; None for no links.
        elsewhere: The same where there are no scripts.
    """
    rows = report.rows[:MAX_ROWS]
    columns = tuple(_columns(report))
    addresses = [page_address(row.report, pages) for row in rows]
    has_pages = any(address is not None for address in addresses)
    ids = row_ids(rows)
    details, is_scarce = details_of(rows, ids)
    facts = {
        "columns": columns,
        "rows": [
            _line(row, id, columns, address if has_pages else _NO_COLUMN)
            for row, id, address in zip(rows, ids, addresses, strict=True)
        ],
        "has_pages": has_pages,
        "hidden_rows": len(report.rows) - len(rows),
        "is_scarce": is_scarce,
        "filters": [one for one in _filters(rows) if len(one.choices) > 1],
        "marks": [name for name in ("flaky", "noisy") if any(name in marks_of(row) for row in rows)],
    }
    return Drawing(
        "survey_rows.html.j2", facts, {"rows": details}, ("survey.js",), ("bench.css", "survey.css"), (elsewhere,)
    )


def _columns(report: SurveyReport) -> Iterator[words.RowColumn]:
    """The columns after that of names, which heads the rows."""
    if any(row.family is not None for row in report.rows):
        yield words.RowColumn("family", 0, lambda row: Cell(row.family or NOTHING), is_text=True)
    for column in words.row_columns(report)[1:]:
        # What is unknown of all rows has no column.
        if any(column.cell(row).text != NOTHING for row in report.rows):
            yield replace(column, cell=_finding_cell) if column.heading == words.FINDING else column


def _finding_cell(row: SurveyRow) -> Cell:
    """Its first finding; as its detail, why it failed."""
    error = None if row.is_passed else error_text(row)
    found = words.finding_text(row)
    if error is None:
        return Cell(found)
    return Cell("" if row.top is None else found, shortened(error, _LONGEST_ERROR))


def _filters(rows: Sequence[SurveyRow]) -> Iterator[_Filter]:
    statuses = {row.status for row in rows}
    outcomes = [(status, words.STATUS_TEXTS[status]) for status in SURVEY_STATUSES if status in statuses]
    yield _Filter("status", "Status", "all", (*outcomes, ("not-ok", "all but ok")) if len(outcomes) > 1 else ())
    yield _Filter("variant", "Variant", "all", _choices(row.variant for row in rows))
    yield _Filter("family", "Family", "all", _choices(row.family for row in rows if row.family is not None))
    codes = _choices(sorted({cause.code for row in rows for cause in row.causes}))
    yield _Filter("code", "Finding", "any or none", (*codes, ("none", "none")) if codes else ())


def _choices(values: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((value, shortened(value, _LONGEST_CHOICE)) for value in list(dict.fromkeys(values))[:_MAX_CHOICES])


# Markup by hand: a template would take seconds for thousands of rows.


def _line(row: SurveyRow, id: str, columns: Sequence[words.RowColumn], page: str | None) -> Markup:
    facts = {
        "status": row.status,
        "variant": row.variant,
        "family": row.family,
        "code": " ".join(dict.fromkeys(cause.code for cause in row.causes)),
        "marks": " ".join(marks_of(row)),
    }
    filtered = "".join(f' data-{name}="{_safe(value)}"' for name, value in facts.items() if value)
    cells = "".join(_cell(column, row) for column in columns)
    if page != _NO_COLUMN:
        name = _safe(f"Page of {row.name}, {row.variant}")
        link = "" if page is None else f'<a href="{_safe(page)}" aria-label="{name}">page</a>'
        cells += f'<td class="text page">{link}</td>'
    return Markup(f'<tr id="{_safe(id)}"{filtered}><th scope="row">{_safe(row.name)}</th>{cells}</tr>')


def _cell(column: words.RowColumn, row: SurveyRow) -> str:
    cell = column.cell(row)
    text, detail = plain_text(cell.text), plain_text(cell.detail)
    kinds = [
        *(["text"] if column.is_text else []),
        *(["finding"] if column.heading == words.FINDING else []),
        *([f"tone-{cell.tone}"] if cell.tone else []),
    ]
    style = f' class="{" ".join(kinds)}"' if kinds else ""
    # What is unknown has nothing to be sorted by.
    by = "" if text == NOTHING else None if cell.value is None or text == str(cell.value) else f"{cell.value:.6g}"
    value = "" if by is None else f' data-v="{by}"'
    small = f" <small>{_safe(detail)}</small>" if detail else ""
    return f"<td{style}{value}>{_safe(text)}{small}</td>"


def _safe(text: str) -> str:
    return escape(printable_lines(text))


def marks_of(row: SurveyRow) -> list[str]:
    """What else it can be filtered by."""
    return [name for name, is_so in (("flaky", row.is_flaky), ("noisy", row.is_noisy)) if is_so]


def row_ids(rows: Iterable[SurveyRow]) -> list[str]:
    """For each row an id that no other has, which is the same whenever the survey is made again."""
    found: dict[str, None] = {}
    for row in rows:
        text = f"row-{_slug(row.name)}-{_slug(row.variant)}"
        id, number = text, 1
        while id in found:
            number += 1
            id = f"{text}-{number}"
        found[id] = None
    return list(found)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text)[:_LONGEST_ID].strip("-")


def page_address(report: str | None, pages: str | None) -> str | None:
    """Where a piece's own page is, relative to this one; None if it has none or it would be outside of that folder."""
    if report is None or pages is None:
        return None
    path = PurePosixPath(report)
    if path.is_absolute() or ".." in path.parts:
        return None
    return f"./{quote(printable_lines(pages))}/{quote(printable_lines(report))}"


# Details.


class _Texts:
    """Each text once, in the order in which it came."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}
        self.is_scarce = False
        self._left = _MAX_TEXT

    def add(self, text: str, most: int = _MAX_LINE) -> int:
        if (known := self.found.get(text)) is not None:
            return known
        safe = printable_lines(without_middle(text, _SCARCE if self.is_scarce else most))
        number = self.found.setdefault(safe, len(self.found))
        if number == len(self.found) - 1:
            self._left -= len(safe)
            self.is_scarce = self.is_scarce or self._left < 0
        return number

    def maybe(self, text: str | None, most: int = _MAX_LINE) -> int | None:
        return None if text is None or not text.strip() else self.add(text, most)


def details_of(rows: Sequence[SurveyRow], ids: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """What the rows show when they are opened, and whether long texts had to be cut to little."""
    texts = _Texts()
    # What failed comes first: its tracebacks are what a reader opens a row for.
    ordered = sorted(zip(rows, ids, strict=True), key=lambda shown: shown[0].is_passed)
    details = {id: _details(row, texts) for row, id in ordered}
    return {"texts": list(texts.found), "rows": details}, texts.is_scarce


def _details(row: SurveyRow, texts: _Texts) -> dict[str, Any]:
    error = None if row.is_passed else row.error or row.error_type
    found: dict[str, Any] = {
        "error": texts.maybe(error, _MAX_CHARACTERS),
        "traceback": texts.maybe(row.traceback, _MAX_CHARACTERS),
        "facts": [[texts.add(name), texts.add(text)] for name, text in _facts(row)],
        "causes": [_cause(cause, texts) for cause in row.causes[:_MAX_CAUSES]],
        "more": texts.add(f"{counted(len(row.causes) - _MAX_CAUSES, 'more finding')} in the JSON document.")
        if len(row.causes) > _MAX_CAUSES
        else None,
        "command": texts.maybe(row.command, _MAX_CHARACTERS),
        "gaps": [texts.add(gap) for gap in row.gaps[:_MAX_GAPS]],
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def _cause(cause: SurveyCause, texts: _Texts) -> dict[str, Any]:
    costs = words.cause_costs(cause)
    parts = [f"{cause.count:,} times"] if cause.count > 1 else []
    parts += [f"costs {costs}"] if costs else []
    parts += [f"{seconds_text(cause.compile_s)} of compiling"] if cause.compile_s is not None else []
    found: dict[str, Any] = {
        "severity": cause.severity,
        "code": texts.add(cause.code),
        "rule": texts.add(cause.rule),
        "message": texts.add(cause.message),
        "place": texts.add(cause.location),
        "package": texts.maybe(cause.package),
        "function": texts.add(cause.function),
        "text": texts.maybe(cause.text),
        "line": cause.line,
        "costs": texts.maybe(", ".join(parts)),
        "fix": texts.maybe(cause.fix),
        "verdict": cause.fix_verdict,
        "diff": texts.maybe(cause.diff, _MAX_CHARACTERS),
    }
    return {name: value for name, value in found.items() if value is not None}


def _facts(row: SurveyRow) -> Iterator[tuple[str, str]]:
    """All that is known of a row, but for its error and findings."""
    yield "outcome", words.outcome_text(row.status, row.stage)
    if row.error_type is not None:
        yield "exception", row.error_type
    if row.attempts > 1:
        yield "attempts", words.flaky_text(row) if row.earlier else f"{row.attempts:,}"
    yield from _numbers(row)
    named: list[tuple[str, str | None]] = [
        ("target", row.target),
        ("variant", row.variant),
        ("family", row.family),
        ("torch", row.torch),
        ("library", row.library),
        ("Python", row.python),
        ("device", row.device),
        ("machine", row.host),
        ("dtype", row.dtype),
        ("batch size", None if row.batch is None else f"{row.batch:,}"),
        ("started", row.started),
        ("took", words.seconds_of(row.seconds)),
    ]
    yield from ((name, text) for name, text in named if text)


def _numbers(row: SurveyRow) -> Iterator[tuple[str, str]]:
    counts = {
        "calls": row.calls,
        "break sites": row.break_sites,
        "skipped frames": row.skipped_frames,
        "recompiles": row.recompiles,
        "functions over the recompile limit": row.frames_over_limit,
        "graphs": row.graphs,
    }
    yield from ((name, f"{number:,}") for name, number in counts.items() if number is not None)
    if row.coverage is not None:
        yield "coverage", percent(row.coverage)
    unknown = [name for name, number in (*counts.items(), ("coverage", row.coverage)) if number is None]
    if unknown:
        yield "unknown", ", ".join(unknown)
    if row.is_steady is not None:
        yield "calls repeated", "stops compiling" if row.is_steady else "keeps compiling"
    times = {
        "compile, recorded run": row.compile_s,
        "cold compile": row.compile_cold_s,
        "warm compile": row.compile_warm_s,
    }
    yield from ((name, seconds_text(seconds)) for name, seconds in times.items() if seconds is not None)
    for name, us in (("compiled call", row.call_us), ("eager call", row.eager_us)):
        if us is not None:
            yield name, duration(us)
    if row.speedup is not None:
        yield "speed-up", cell_line(words.speedup_cell(row))
    if row.noise is not None:
        busy = f". {words.NOISY}." if row.is_noisy else ""
        yield "eager beside eager", f"{factor_text(row.noise)}{busy}"
    if row.peak_memory_bytes is not None:
        yield "peak memory", bytes_text(row.peak_memory_bytes)
    if row.correct is not None:
        yield "results", "as in eager mode" if row.correct else "differ from eager mode's"
    if row.exports is not None:
        why = f": {shortened(row.export_error, _MAX_LINE)}" if row.export_error else ""
        why += f" · {row.export_top.location}" if row.export_top is not None else ""
        yield "torch.export", "works" if row.exports else f"fails{why}"
