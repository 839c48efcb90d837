"""The table of a survey's page, which sorts, filters, and opens each row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from graphdoctor.facts.survey import SURVEY_STATUSES, SurveyReport, SurveyRow
from graphdoctor.views import survey_words as words
from graphdoctor.views.html.plots import STYLES
from graphdoctor.views.measures import seconds_text
from graphdoctor.views.parts import Drawing, cell_line
from graphdoctor.views.printable import printable_lines
from graphdoctor.wording import counted, join_texts, shortened, without_middle

_MAX_ROWS = 4_000
_MAX_CAUSES = 12
"""Findings in the details of a row."""
_MAX_GAPS = 20
_MAX_CHARACTERS = 6_000
"""Of a text."""
_MAX_TEXT = 4_000_000
"""Characters of all texts together; from then on, each is cut to ``_SCARCE``."""
_SCARCE = 200
_MAX_ID = 60
_MAX_CHOICES = 300
"""Choices of a filter."""
_MAX_CHOICE = 60
_MARKS = ("flaky", "noisy")


def rows_drawing(report: SurveyReport, pages: str | None) -> Drawing:
    """Return the table of all rows; ``pages`` is as in ``RenderOptions``."""
    rows = report.rows[:_MAX_ROWS]
    ids = row_ids(rows)
    addresses = [page_address(row.report, pages) for row in rows]
    table = words.row_table(report.replace(rows=rows), is_page=True)
    texts = _Texts()
    # What failed comes first: its tracebacks are what a reader opens a row for.
    ordered = sorted(zip(rows, ids, strict=True), key=lambda shown: shown[0].is_passed)
    details = {id: texts.packed(_details(row)) for row, id in ordered}
    values = [
        {
            "status": row.status,
            "variant": row.variant,
            "family": row.family,
            "code": " ".join(dict.fromkeys(cause.code for cause in row.causes)),
            "marks": " ".join(mark for mark in _MARKS if getattr(row, f"is_{mark}")),
        }
        for row in rows
    ]

    def choices(values: Iterable[str | None]) -> list[tuple[str, str]]:
        distinct = [value for value in dict.fromkeys(values) if value is not None]
        return [(value, shortened(value, _MAX_CHOICE)) for value in distinct[:_MAX_CHOICES]]

    statuses = {row.status for row in rows}
    names = [name for name in SURVEY_STATUSES if name in statuses]
    outcomes: list[tuple[str, str]] = [(name, words.STATUS_TEXTS[name]) for name in names]
    outcomes += [("not-ok", "all but ok")] if len(outcomes) > 1 else []
    codes = choices(sorted({cause.code for row in rows for cause in row.causes}))
    # Key, label, what shows all, and each value with its text.
    filters = (
        ("status", "Status", "all", outcomes),
        ("variant", "Variant", "all", choices(row.variant for row in rows)),
        ("family", "Family", "all", choices(row.family for row in rows)),
        ("code", "Finding", "any or none", [*codes, ("none", "none")] if codes else []),
    )
    facts = {
        "columns": table.columns,
        "rows": list(zip(ids, values, addresses, table.rows, strict=True)),
        "has_pages": any(addresses),
        "hidden_rows": len(report.rows) - len(rows),
        "is_scarce": texts.is_scarce,
        "filters": [shown for shown in filters if len(shown[-1]) > 1],
        "marks": [mark for mark in _MARKS if any(getattr(row, f"is_{mark}") for row in rows)],
    }
    blobs = {"rows": {"texts": list(texts.numbers), "rows": details}}
    styles, elsewhere = (*STYLES, "survey.css"), (words.row_table(report),)
    return Drawing("survey_rows.html.j2", facts, blobs, ("survey.js",), styles, elsewhere)


def row_ids(rows: Iterable[SurveyRow]) -> list[str]:
    """Return a different id for each row, the same whenever the survey is made again."""
    ids: dict[str, None] = {}
    for row in rows:
        names = (re.sub(r"\W+", "-", name, flags=re.ASCII) for name in (row.name, row.variant))
        text = id = "-".join(["row", *(name[:_MAX_ID].strip("-") for name in names)])
        number = 1
        while id in ids:
            number += 1
            id = f"{text}-{number}"
        ids[id] = None
    return list(ids)


def page_address(report: str | None, pages: str | None) -> str | None:
    """Return the address of a piece's own page; None if it has none or it would be outside of that
    folder.
    """
    if report is None or pages is None:
        return None
    path = PurePosixPath(report)
    if path.is_absolute() or ".." in path.parts:
        return None
    return f"./{quote(printable_lines(pages))}/{quote(printable_lines(report))}"


# What a row shows when it is opened.


class _Texts:
    """Each text once, in order: many rows share tracebacks, messages and edits."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._left = _MAX_TEXT

    @property
    def is_scarce(self) -> bool:
        """Whether long texts are cut to little."""
        return self._left < 0

    def packed(self, value: Any) -> Any:  # noqa: ANN401 - of any JSON
        """Replace texts by their numbers, and leave out what is unknown or empty."""
        if isinstance(value, dict):
            filled = {name: item for name, item in value.items() if item not in (None, "", [], ())}
            return {name: self.packed(item) for name, item in filled.items()}
        if isinstance(value, list | tuple):
            return [self.packed(item) for item in value]
        if not isinstance(value, str) or value in self.numbers:
            return self.numbers.get(value, value)
        most = _SCARCE if self.is_scarce else _MAX_CHARACTERS
        text = printable_lines(without_middle(value, most))
        if text not in self.numbers:
            self._left -= len(text)
        return self.numbers.setdefault(text, len(self.numbers))


def _details(row: SurveyRow) -> dict[str, Any]:
    more = len(row.causes) - _MAX_CAUSES
    causes = []
    for cause in row.causes[:_MAX_CAUSES]:
        costs = words.cause_costs(cause)
        text = join_texts(
            ", ",
            f"{cause.count:,} times" if cause.count > 1 else None,
            f"costs {costs}" if costs else None,
            None if cause.compile_s is None else f"{seconds_text(cause.compile_s)} of compiling",
        )
        causes.append({**vars(cause), "place": cause.location, "costs": text, "fingerprint": None})
    return {
        "error": None if row.is_passed else row.error or row.error_type,
        "traceback": row.traceback,
        "facts": list(_facts(row)),
        "causes": causes,
        "more": f"{counted(more, 'more finding')} in the JSON document." if more > 0 else None,
        "command": row.command,
        "gaps": row.gaps[:_MAX_GAPS],
    }


def _facts(row: SurveyRow) -> Iterator[tuple[str, str]]:
    """Yield all that is known of a row, but for its error and findings."""
    yield "outcome", words.outcome_text(row)
    if row.error_type is not None:
        yield "exception", row.error_type
    if row.attempts > 1:
        yield "attempts", words.flaky_text(row) if row.earlier else f"{row.attempts:,}"
    unknown = []
    for name, field in words.FIELDS.items():
        if getattr(row, name) is not None:
            yield field.label, cell_line(words.field_cell(row, name))
        elif field.is_counted:
            unknown.append(field.label)
    if unknown:
        yield "unknown", ", ".join(unknown)
    if row.is_noisy:
        yield "noisy", f"{words.NOISY}."
