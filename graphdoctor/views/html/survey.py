"""A survey as one self-contained HTML file: the answer, what costs most, what failed, drawings, and all rows.

Rows are a plain table, which a script sorts and filters; their details are packed, and drawn when a row is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.facts.survey import SURVEY_STATUSES
from graphdoctor.facts.wording import shortened
from graphdoctor.views import survey_words as words
from graphdoctor.views.html.document import write_document
from graphdoctor.views.html.packed import packed
from graphdoctor.views.html.survey_plots import MAX_VARIANTS, pareto_of, spread_of
from graphdoctor.views.html.survey_rows import details_of, marks_of, table_of
from graphdoctor.views.survey_failures import failures

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SharedCause, SurveyReport, SurveyRow
    from graphdoctor.views.html.survey_rows import TableRow
    from graphdoctor.views.parts import Tone

_MAX_NAMES = 8
"""Names that are shown without unfolding."""
_MOST_NAMES = 300
"""Names that are on the page at all."""
_MAX_PLACES = 60
_MAX_FAILURES = 60
_MAX_NOTES = 40
_MAX_CHOICES = 300
"""Choices of a filter."""
_LONGEST_CHOICE = 60
_LONGEST_ERROR = 1_500
_QUARTILES = ("least", "¼", "median", "¾", "most")


@dataclass(frozen=True)
class _Names:
    """Names with links to their rows.

    Args:
        first: The first ones, each with the id of its row; None if that isn't on the page.
        rest: Those that are unfolded.
        left_out: How many more there are.
    """

    first: tuple[tuple[str, str | None], ...]
    rest: tuple[tuple[str, str | None], ...]
    left_out: int

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.first) + len(self.rest) + self.left_out


@dataclass(frozen=True)
class _Cause:
    cause: SharedCause
    message: str
    size: str
    function: str | None
    place: str
    costs: str
    fix: tuple[str, bool] | None
    targets: _Names
    places: tuple[str, ...]


@dataclass(frozen=True)
class _Failure:
    outcome: str
    tone: Tone | None
    targets: int
    rows: int
    error: str | None
    variants: str
    names: _Names


@dataclass(frozen=True)
class _Filter:
    """A choice of what the table shows.

    Args:
        key: Its name in the page's address.
        label: What it chooses.
        every: What its first choice says, which leaves all rows.
        choices: Values and how they are written.
    """

    key: str
    label: str
    every: str
    choices: tuple[tuple[str, str], ...]


def render_survey_page(report: SurveyReport, *, pages: str | None = None, has_source: bool = True) -> str:
    """The page.

    Args:
        report: What to show.
        pages: The folder, relative to this page, under which the pages of pieces are; None for no links to them.
        has_source: Show lines of code.

    Returns:
        A whole HTML document.
    """
    if not has_source:
        from graphdoctor.views.html.sourceless import without_source

        report = without_source(report)
    said, tone = words.verdict(report)
    table = table_of(report, pages)
    rows = table.rows
    ids = {shown.row.key: shown.id for shown in reversed(rows)}
    details, is_scarce = details_of(rows)
    failed = failures(report.rows)
    families = words.family_grid(report)
    context = {
        "report": report,
        "title": words.title_parts(report),
        "sentence": said,
        "tone": tone,
        "missing": words.missing_text(report),
        "has_source": has_source,
        "variants": words.variant_grid(report),
        "unjudged": words.unjudged_texts(report),
        "has_variants": len(report.variants) > 1,
        "means": words.means_text(report),
        "families": families if families.rows else None,
        "causes": [
            _cause(cause, words.cause_message(cause), [shown for shown in rows if _has(shown.row, cause)])
            for cause in report.summary.causes
        ],
        "more_causes": words.more_causes_text(report),
        "exports_heading": words.EXPORTS_HEADING,
        "export_causes": [
            _cause(cause, cause.message, [shown for shown in rows if _stops_at(shown.row, cause)])
            for cause in report.summary.export_causes
        ],
        "more_export_causes": words.more_export_causes_text(report),
        "failures": [_failure(one.rows, one.error, ids) for one in failed[:_MAX_FAILURES]],
        "failure_count": len(failed),
        "pareto": pareto_of(report, rows),
        "spread": spread_of(report),
        "quartiles": _QUARTILES,
        "hidden_variants": max(len(report.variants) - MAX_VARIANTS, 0),
        "columns": table.columns,
        "rows": rows,
        "has_pages": table.has_pages,
        "hidden_rows": len(report.rows) - len(rows),
        "is_scarce": is_scarce,
        "filters": [one for one in _filters([shown.row for shown in rows]) if len(one.choices) > 1],
        "marks": [name for name in ("flaky", "noisy") if any(name in marks_of(shown.row) for shown in rows)],
        "settings": [(variant.name, words.settings_text(variant)) for variant in report.variants],
        "options": words.options_text(report),
        "took": words.took_text(report),
        "notes": report.notes[:_MAX_NOTES],
        "more_notes": max(len(report.notes) - _MAX_NOTES, 0),
    }
    return write_document(
        "survey.html.j2",
        context,
        blobs={"rows": packed(details)},
        scripts=("survey.js",),
        styles=("bench.css", "survey.css"),
    )


# Causes and failures.


def _cause(cause: SharedCause, message: str, rows: Sequence[TableRow]) -> _Cause:
    own = {shown.row.name: shown.id for shown in reversed(rows)}
    return _Cause(
        cause,
        message,
        words.cause_size(cause),
        words.cause_function(cause),
        words.cause_place(cause),
        words.cause_costs(cause),
        words.cause_fix(cause),
        _names([(name, own.get(name)) for name in cause.targets]),
        cause.places[:_MAX_PLACES] if cause.functions > 1 else (),
    )


def _has(row: SurveyRow, cause: SharedCause) -> bool:
    return any(
        own.code == cause.code and (cause.functions > 1 or (own.file, own.function) == (cause.file, cause.function))
        for own in row.causes
    )


def _stops_at(row: SurveyRow, cause: SharedCause) -> bool:
    return any((own.code, own.message) == (cause.code, cause.message) for own in row.export_causes)


def _failure(rows: Sequence[SurveyRow], error: str | None, ids: dict[tuple[str, str], str]) -> _Failure:
    first = rows[0]
    variants = dict.fromkeys(row.variant for row in rows)
    names = {row.name: ids.get(row.key) for row in reversed(rows)}
    return _Failure(
        words.outcome_text(first.status, first.stage),
        words.status_cell(first).tone,
        len(names),
        len(rows),
        None if error is None else shortened(error, _LONGEST_ERROR),
        words.some_names(list(variants)),
        _names([(name, names[name]) for name in dict.fromkeys(row.name for row in rows)]),
    )


def _names(found: Sequence[tuple[str, str | None]]) -> _Names:
    first, rest = found[:_MAX_NAMES], found[_MAX_NAMES:_MOST_NAMES]
    return _Names(tuple(first), tuple(rest), max(len(found) - _MOST_NAMES, 0))


# Filters.


def _filters(rows: Sequence[SurveyRow]) -> Iterator[_Filter]:
    statuses = {row.status for row in rows}
    outcomes = [(status, words.STATUS_TEXTS[status]) for status in SURVEY_STATUSES if status in statuses]
    yield _Filter("status", "Status", "all", (*outcomes, ("not-ok", "all but ok")) if len(outcomes) > 1 else ())
    yield _choices("variant", "Variant", [row.variant for row in rows])
    yield _choices("family", "Family", [row.family for row in rows if row.family is not None])
    codes = sorted({cause.code for row in rows for cause in row.causes})
    yield _Filter(
        "code",
        "Finding",
        "any or none",
        (*((code, shortened(code, _LONGEST_CHOICE)) for code in codes[:_MAX_CHOICES]), ("none", "none"))
        if codes
        else (),
    )


def _choices(key: str, label: str, values: Iterable[str]) -> _Filter:
    found = list(dict.fromkeys(values))
    choices = tuple((value, shortened(value, _LONGEST_CHOICE)) for value in found[:_MAX_CHOICES])
    return _Filter(key, label, "all", choices)
