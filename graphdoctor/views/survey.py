"""A survey: the answer by variant and family, what costs most over all targets, what failed, then
every row.

Comes in: a ``SurveyReport``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from graphdoctor.views import survey_words as words
from graphdoctor.views.next_step import after_survey
from graphdoctor.views.parts import (
    Block,
    Cards,
    Cell,
    Inline,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Verdict,
    View,
    joined,
)
from graphdoctor.views.survey_words import Failure, failures
from graphdoctor.views.words import few_text
from graphdoctor.wording import counted

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SurveyReport

_FAMILIES_FROM = 2
_MAX_FAMILIES = 6
_MAX_FAILURES = 7
_MAX_NAMES = 8
_MAX_VARIANTS = 3
_MOST_NAMES = 300
_MAX_NOTED = 2
_MAX_NOTES = 8
_LONGEST_ERROR = 400

Ids = Mapping[str, str]
"""Of the rows that a page has, by the names of their targets."""


def survey_view(report: SurveyReport, *, pages: str | None = None) -> View:
    """The survey as a tree; ``pages`` is as in ``RenderOptions``."""
    title, parts = tuple(words.title_parts(report)), tuple(_parts(report, pages))
    return View(title, "survey", parts, report.graphdoctor_version, after_survey(report))


def _parts(report: SurveyReport, pages: str | None) -> Iterator[Block]:
    from graphdoctor.views.html.survey import pareto_drawing, row_ids, rows_drawing, spread_drawing

    ids = {
        row.name: id
        for row, id in reversed(list(zip(report.rows, row_ids(report.rows), strict=True)))
    }
    said, tone = words.verdict(report)
    yield Verdict(said, tone)
    if (missing := words.missing_text(report)) is not None:
        yield Note(missing, "warning")
    yield from _groups(report)
    yield Section("What costs most over all targets", _causes(report, ids), "Causes")
    yield Section("What torch.export stops at", _causes(report, ids, is_export=True), "Exports")
    yield _failures(failures(report.rows), report, ids)
    yield Section("Flaky and noisy", Rows(_noted(report), "row", _MAX_NOTED))
    yield Section("Speed-up by compile time", pareto_drawing(report), "Pareto")
    yield Section("Speed-ups in order", spread_drawing(report), "Spread")
    yield Section("All rows", rows_drawing(report, pages), "Rows", len(report.rows))
    yield Section("How it was measured", _measured(report), "Made")


def _more(text: str | None) -> tuple[Note, ...]:
    return () if text is None else (Note(text, "dim"),)


# Variants and families.


def _groups(report: SurveyReport) -> Iterator[Block]:
    groups = words.total_groups(report) if report.rows else []
    yield words.group_table("variant", [(group.variant, group) for group in groups], report.rows)
    for names, text in words.unjudged_texts(report):
        yield Note(
            f"Not judged ({names}): {text}" if len(report.variants) > 1 else f"Not judged: {text}",
            "dim",
        )
    yield from _more(words.means_text(report))
    families = words.family_table(report, _MAX_FAMILIES)
    if len(families.rows) >= _FAMILIES_FROM:
        yield Section("Families", families)


# Causes.


def _causes(report: SurveyReport, ids: Ids, *, is_export: bool = False) -> Iterator[Block]:
    summary = report.summary
    causes, count = summary.causes, summary.cause_count
    if is_export:
        causes, count = summary.export_causes, summary.export_cause_count
    cards = []
    for number, cause in enumerate(causes, start=1):
        # Those that an export stops at say the same, in whichever function.
        said = cause.message if is_export else words.cause_message(cause)
        targets = Row("targets", Note(_names(cause.targets, ids, _MOST_NAMES)), show="long")
        cards.append(
            words.cause_card(cause, said, f"{'export' if is_export else 'cause'}-{number}", targets)
        )
    yield Cards(tuple(cards))
    if (more := count - len(causes)) > 0:
        less = "of fewer targets" if is_export else "costs less" if more == 1 else "cost less"
        yield Note(f"{counted(more, 'more cause')} {less}.", "dim")


def _names(names: Sequence[str], ids: Ids, most: int) -> Inline:
    """Names that a page links to their rows."""
    more = (f" and {len(names) - most:,} more",) if len(names) > most else ()
    return joined([Span(name, link=ids.get(name)) for name in names[:most]]), *more


# What failed, and rows to look at.


def _failures(found: Sequence[Failure], report: SurveyReport, ids: Ids) -> Section:
    def which(one: Failure) -> Cell:
        under = f"under {few_text(one.variants, _MAX_VARIANTS)}" if len(report.variants) > 1 else ""
        return Cell(_names(one.targets, ids, _MAX_NAMES), under)

    table = words.failure_table(found, which, longest=_LONGEST_ERROR, most=_MAX_FAILURES)
    note = Note("Rows with the same error are together; … stands where their errors differ.", "dim")
    return Section("What failed", (table, note) if found else (), "Failures", len(found))


def _noted(report: SurveyReport) -> Iterator[Row]:
    has_variants = len(report.variants) > 1
    for row in report.rows:
        if row.is_flaky:
            name = words.row_name(row, has_variants=has_variants)
            yield Row("flaky", Note((Span(name), f": {words.flaky_text(row)}"), "warning"))
    if noisy := [
        words.row_name(row, has_variants=has_variants) for row in report.rows if row.is_noisy
    ]:
        yield Row(
            "noisy", (Note(f"{words.NOISY}:", "warning"), Span(few_text(noisy, 4 * _MAX_NAMES)))
        )


# The end.


def _measured(report: SurveyReport) -> Iterator[Block]:
    rows = []
    for each in report.variants:
        settings = (
            words.options_text({**each.settings, "python": each.python}) or "nothing of its own"
        )
        rows.append(Row(Span(each.name), Span(settings), show="long"))
    if report.options:
        rows.append(Row("options", Span(words.options_text(report.options)), show="long"))
    rows += [Row("note", Note(note, "dim")) for note in report.notes]
    yield Rows(rows, "note", _MAX_NOTES)
    yield from _more(words.took_text(report))
