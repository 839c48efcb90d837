"""A survey as Markdown for an issue or a page of documentation.

Comes in: a ``SurveyReport``. Goes out: GitHub's Markdown, no longer than GitHub accepts, of the kind that other
renderers take too: the answer, variants and families, what costs most, what failed, then every row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphdoctor.views import survey_words as words
from graphdoctor.views.markdown import Section, document
from graphdoctor.views.markdown_text import code, plain, sentence
from graphdoctor.views.survey_failures import failures

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SharedCause, SurveyReport, SurveyRow
    from graphdoctor.views.bench_words import Cell
    from graphdoctor.views.survey_failures import Failure
    from graphdoctor.views.survey_words import RowColumn

_FAMILIES_FROM = 2
_MAX_NAMES = 12
"""Targets of an error, or rows of a note, that are named."""
_NAME = 80
_ERROR = 400


def render_survey_markdown(report: SurveyReport) -> str:
    """The answer, the tables, causes, failures, every row.

    Args:
        report: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    first, *rest = words.title_parts(report)
    head = ["## graphdoctor survey", " · ".join([code(first), *map(plain, rest)])]
    head.append(f"**{sentence(words.verdict(report)[0])}**")
    head += [plain(text) for text in (words.missing_text(report),) if text is not None]
    return document(head, _sections(report))


def _sections(report: SurveyReport) -> Iterator[Section]:
    yield _grid(words.variant_grid(report), "variant", "")
    means = words.means_text(report)
    yield Section([] if means is None else [plain(means)], "note")
    yield Section(list(_unjudged(report)), "note")
    families = words.family_grid(report)
    if len(families.rows) >= _FAMILIES_FROM:
        yield _grid(families, "family", "### Families\n\n")
    causes = [_cause(cause, words.cause_message(cause)) for cause in report.summary.causes]
    if (more := words.more_causes_text(report)) is not None:
        causes.append(f"- {plain(more)}")
    yield Section(causes, "cause", "### What costs most over all targets\n\n")
    exports = [_cause(cause, cause.message) for cause in report.summary.export_causes]
    if (more := words.more_export_causes_text(report)) is not None:
        exports.append(f"- {plain(more)}")
    yield Section(exports, "cause", f"### {words.EXPORTS_HEADING}\n\n")
    head = "### What failed\n\n| outcome | targets | error | which |\n| --- | ---: | --- | --- |\n"
    has_variants = len(report.variants) > 1
    failed = [_failure(failure, has_variants=has_variants) for failure in failures(report.rows)]
    yield Section(failed, "error", head)
    yield Section(list(_noted(report)), "note", "### Flaky and noisy\n\n")
    yield _rows(report)
    yield Section(list(_measured(report)), "note", "### How it was measured\n\n")


def _grid(shown: words.Grid, noun: str, above: str) -> Section:
    headings = " | ".join(plain(heading, _NAME) for heading in shown.headings)
    head = f"{above}| {headings} |\n| --- |{' ---: |' * (len(shown.headings) - 1)}\n"
    rows = [f"| {plain(name, _NAME)} | {' | '.join(map(_cell, cells))} |" for name, cells in shown.rows]
    return Section(rows, noun, head)


def _cell(cell: Cell) -> str:
    return f"**{plain(cell.line)}**" if cell.tone == "bad" else plain(cell.line)


def _unjudged(report: SurveyReport) -> Iterator[str]:
    for names, text in words.unjudged_texts(report):
        of = f" ({plain(names)})" if len(report.variants) > 1 else ""
        yield f"- Not judged{of}: {plain(text)}"


def _cause(cause: SharedCause, message: str) -> str:
    severe = f"**{plain(cause.code)}**"
    of = "" if (function := words.cause_function(cause)) is None else f" of {code(function)}"
    lines = [f"- {severe} {plain(words.cause_size(cause))}{of}: {sentence(message)}"]
    text = f" {code(cause.text)}" if cause.text else ""
    lines.append(f"{code(words.cause_place(cause))}{text}")
    if costs := words.cause_costs(cause):
        lines.append(f"Costs {plain(costs)}")
    if (fix := words.cause_fix(cause)) is not None:
        lines.append(f"{'Fix' if fix[1] else 'Try'}: {sentence(fix[0])}")
    return "  \n  ".join(lines)


def _failure(failure: Failure, *, has_variants: bool) -> str:
    names = failure.targets[:_MAX_NAMES]
    more = len(failure.targets) - len(names)
    shown = ", ".join(code(name, _NAME) for name in names) + (f" and {more:,} more" if more else "")
    under = f" under {', '.join(code(name, _NAME) for name in failure.variants)}" if has_variants else ""
    outcome = plain(words.outcome_text(failure.status, failure.stage))
    return f"| {outcome} | {len(failure.targets):,} | {plain(failure.error or '', _ERROR)} | {shown}{under} |"


def _noted(report: SurveyReport) -> Iterator[str]:
    has_variants = len(report.variants) > 1
    flaky = [row for row in report.rows if row.is_flaky]
    for row in flaky[:_MAX_NAMES]:
        yield f"- {code(words.row_name(row, has_variants=has_variants))} {plain(words.flaky_text(row))}"
    if len(flaky) > _MAX_NAMES:
        yield f"- {len(flaky) - _MAX_NAMES:,} more flaky rows"
    noisy = [words.row_name(row, has_variants=has_variants) for row in words.noisy_rows(report.rows)]
    if noisy:
        yield f"- {plain(words.NOISY)}: {plain(words.some_names(noisy, _MAX_NAMES), 2_000)}"


# Rows.


def _rows(report: SurveyReport) -> Section:
    columns = words.row_columns(report)
    rules = (" --- |" if column.is_text or column.heading == "status" else " ---: |" for column in columns)
    head = f"### All rows\n\n| {' | '.join(column.heading for column in columns)} |\n|{''.join(rules)}\n"
    rows = [f"| {' | '.join(_row_cell(column, row) for column in columns)} |" for row in report.rows]
    return Section(rows, "row", head)


def _row_cell(column: RowColumn, row: SurveyRow) -> str:
    cell = column.cell(row)
    match column.heading:
        case "name" | "variant":
            return code(cell.text, _NAME)
        case "status":
            marks = [mark for mark, is_so in (("flaky", row.is_flaky), ("noisy", row.is_noisy)) if is_so]
            text = ", ".join([words.outcome_text(row.status, row.stage), *marks])
            return plain(text) if row.is_passed else f"**{plain(text)}**"
        case "first finding" if row.top is not None:
            fix = ", verified fix" if row.top_fix is not None else ""
            return f"{plain(row.top.code)} {code(words.top_place(row), _NAME)}{fix}"
    return _cell(cell)


def _measured(report: SurveyReport) -> Iterator[str]:
    for variant in report.variants:
        torch = "" if variant.torch is None else f", torch {variant.torch}"
        yield f"- {code(variant.name, _NAME)}: {plain(words.settings_text(variant) + torch)}"
    if report.options:
        yield f"- Options: {plain(words.options_text(report), 1_000)}"
    if (took := words.took_text(report)) is not None:
        yield f"- {plain(took)}"
    yield f"- graphdoctor {plain(report.graphdoctor_version)}"
    yield from (f"- {sentence(note)}" for note in report.notes)
