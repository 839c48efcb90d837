"""A ``SurveyReport`` in, its view out: the answer by variant and family, what costs most over all
targets, what failed, then every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.survey import (
    GeometricMean,
    SharedCause,
    SurveyGroup,
    SurveyReport,
    SurveyRow,
)
from graphdoctor.views import survey_words as words
from graphdoctor.views.measures import seconds_text, speed_cell
from graphdoctor.views.next_step import after_survey
from graphdoctor.views.parts import (
    NOTHING,
    Block,
    Cards,
    Cell,
    Column,
    Inline,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Tone,
    Verdict,
    View,
    joined,
)
from graphdoctor.views.words import about_time, few_text
from graphdoctor.wording import counted, factor_text, join_texts, percent

_MAX_FAMILIES = 6
_MAX_FAILURES = 7
_MAX_NAMES = 8
_MAX_VARIANTS = 3
_MAX_TITLES = 3
"""Versions or devices that a title names."""
_MAX_TARGETS = 300
_MAX_NOTED = 2
_MAX_NOTES = 8
_MAX_ERROR = 400

_Ids = Mapping[str, str]
"""Ids of the rows that a page has, by the names of their targets."""


def survey_view(report: SurveyReport, *, pages: str | None = None) -> View:
    """Return the survey as a tree; ``pages`` is as in ``RenderOptions``."""
    title, content = tuple(_title(report)), tuple(_parts(report, pages))
    return View(title, "survey", content, report.graphdoctor_version, after_survey(report))


def _title(report: SurveyReport) -> Iterator[str]:
    """Yield what was surveyed: name, size, torch, device, library, date."""
    targets = len({row.name for row in report.rows})
    variants = counted(len(report.variants), "variant")
    yield report.name
    if len(report.rows) == report.planned == targets * len(report.variants):
        yield f"{counted(targets, 'target')} × {variants}"
    else:
        yield f"{len(report.rows):,} of {counted(report.planned, 'piece')}, {variants}"
    if report.shard is not None:
        yield f"shard {report.shard}"
    for name in ("torch", "device", "library"):
        values = dict.fromkeys(getattr(row, name) for row in report.rows)
        if texts := [value for value in values if value is not None]:
            yield ("torch " if name == "torch" else "") + few_text(texts, _MAX_TITLES)
    yield report.started.partition("T")[0]


def _parts(report: SurveyReport, pages: str | None) -> Iterator[Block]:
    from graphdoctor.views.html.survey import row_ids, rows_drawing

    pairs = zip(report.rows, row_ids(report.rows), strict=True)
    ids = {row.name: id for row, id in reversed(list(pairs))}
    yield Verdict(*verdict(report))
    if (missing := report.planned - len(report.rows)) > 0:
        are, them = ("is", "it") if missing == 1 else ("are", "them")
        planned = counted(report.planned, "piece")
        text = (
            f"{missing:,} of {planned} {are} missing; the same command with --resume runs {them}."
        )
        yield Note(text, "warning")
    yield from _groups(report)
    summary = report.summary
    causes = _causes(summary.causes, summary.cause_count, ids)
    yield Section("What costs most over all targets", causes, "Causes")
    exports = _causes(summary.export_causes, summary.export_cause_count, ids, is_export=True)
    yield Section("What torch.export stops at", exports, "Exports")
    yield _failures(report, ids)
    yield Section("Flaky and noisy", Rows(_noted(report), "row", _MAX_NOTED))
    yield Section("All rows", rows_drawing(report, pages), "Rows", len(report.rows))
    yield Section("How it was measured", _measured(report), "Made")


# The answer.


def verdict(report: SurveyReport) -> tuple[str, Tone]:
    """Return how many targets pass, in a sentence, and whether that is good news."""
    groups = [group for group in report.summary.groups if group.family is None]
    judged, passed = sum(group.judged for group in groups), sum(group.passed for group in groups)
    unjudged = len(report.rows) - judged
    if not report.rows:
        return "No piece has finished.", "bad"
    if not judged:
        return f"No target was judged: {_why_unjudged(report.rows)}.", "bad"
    # What nobody knows is no good news.
    is_good = passed == judged == report.planned == len(report.rows)
    tone: Tone = "good" if is_good else "warning" if passed else "bad"
    if len(report.variants) == 1:
        counts = Counter(row.is_whole for row in report.rows if row.is_passed)
        known = counts[True] + counts[False]
        unknown = f" (unknown for {counts[None]:,})" if counts[None] else ""
        whole = f", {counts[True]:,} of {known:,} without breaks{unknown}" if known else ""
        rest = f"; not judged: {_why_unjudged(report.rows)}" if unjudged else ""
        return f"{passed:,} of {counted(judged, 'target')} {_pass(judged)}{whole}{rest}.", tone
    targets = grouped((row.name, row.is_passed) for row in report.rows if row.is_judged).values()
    everywhere = sum(sum(passes) == len(report.variants) for passes in targets)
    nowhere = sum(not any(passes) for passes in targets)
    none = f", {nowhere:,} under none" if nowhere else ""
    count = counted(len(targets), "target")
    return join_texts(
        " ",
        f"{everywhere:,} of {count} {_pass(len(targets))} under every variant{none}.",
        f"Not judged: {counted(unjudged, 'piece')}." if unjudged else None,
        _fastest(groups),
    ), tone


def _why_unjudged(rows: Iterable[SurveyRow]) -> str:
    texts = Counter(words.outcome_text(row) for row in rows if not row.is_judged)
    return ", ".join(f"{count:,} {text}" for text, count in texts.most_common())


def _pass(count: int) -> str:
    return "passes" if count == 1 else "pass"


def _fastest(groups: Sequence[SurveyGroup]) -> str | None:
    """Return which variant is fastest on the targets that all have; None if they share none."""
    means = [(mean, group.variant) for group in groups if (mean := group.speedup_shared)]
    if len(means) < 2:
        return None
    (best, name), (second, other), *_ = sorted(means, key=lambda pair: -pair[0].ratio)
    over = "one target" if best.count == 1 else f"{best.count:,} targets"
    ratio, other_ratio = factor_text(best.ratio), factor_text(second.ratio)
    sides = f"{name} {ratio}, {other} {other_ratio}"
    if best.high < 1:
        text = f"all are slower than eager mode: {sides}"
    elif best.low > second.high:
        text = f"{name} is fastest: {ratio}, {other} {other_ratio}"
    else:
        text = f"there is no clear difference between {name} ({ratio}) and {other} ({other_ratio})"
    return f"Over the {over} timed under every variant, {text}."


# Variants and families.


def _groups(report: SurveyReport) -> Iterator[Block]:
    of_variants = [group for group in report.summary.groups if group.family is None]
    yield _group_table(of_variants if report.rows else [], report, "variant")
    if len(report.variants) > 1:
        unjudged = grouped((row.variant, row) for row in report.rows if not row.is_judged)
        for variant, rows in unjudged.items():
            yield Note(f"Not judged ({variant}): {_why_unjudged(rows)}", "dim")
    if any(group.speedup is not None for group in of_variants):
        over = ""
        if len(of_variants) > 1:
            over = ", for each variant over the targets that pass under it"
            if all(group.speedup_shared is None for group in of_variants):
                over += "; none passes under all, so don't compare them"
        yield Note(f"Speed-up: geometric mean with its 95% interval{over}.", "dim")
    families = grouped(
        (group.family, group) for group in report.summary.groups if group.family is not None
    )
    if len(families) > 1:
        ordered = sorted(
            families.values(), key=lambda groups: -sum(group.pieces for group in groups)
        )
        most = _MAX_FAMILIES * len(report.variants)
        of_families = [group for groups in ordered for group in groups]
        yield Section("Families", _group_table(of_families, report, "family", most))


def _group_table(
    groups: Sequence[SurveyGroup], report: SurveyReport, heading: str, most: int | None = None
) -> Table:
    """Return a row for each group; columns that are unknown for all are left out."""
    shared = max((mean.count for group in groups if (mean := group.speedup_shared)), default=0)
    # Over the same targets, two variants have the same figures twice.
    is_compared = any(group.speedup_shared != group.speedup for group in groups)
    rows = []
    for group in groups:
        members = [
            row
            for row in report.rows
            if row.variant == group.variant and group.family in (None, row.family)
        ]
        judged = sum(row.is_whole is not None for row in members)
        tried = [row.exports for row in members if row.exports is not None]
        tone: Tone = "warning" if group.passed else "bad"
        passed = Cell(
            f"{group.passed:,} of {group.judged:,}" if group.judged else "none judged",
            "" if group.pass_rate is None else percent(group.pass_rate),
            "good" if group.passed == group.judged > 0 else tone if group.judged else None,
        )
        cold = group.compile_cold_s
        rows.append(
            (
                Span(group.family or group.variant),
                Span(group.variant if group.family and len(report.variants) > 1 else ""),
                passed,
                f"{group.whole:,} of {judged:,}" if judged else NOTHING,
                _mean_cell(group.speedup),
                _mean_cell(group.speedup_shared if is_compared and not group.family else None),
                NOTHING if group.speedup is None else f"{group.faster:,} / {group.slower:,}",
                NOTHING if cold is None else seconds_text(cold),
                f"{sum(tried):,} of {len(tried):,}" if tried else NOTHING,
            )
        )
    names = ["passed", "no breaks", "speed-up", f"same {counted(shared, 'target')}"]
    names += ["faster / slower", "cold compile", "exports"]
    columns = [Column(heading), Column("variant", is_number=False), *map(Column, names)]
    return Table(columns, rows, "row", most, f"Figures of each {heading}")


def _mean_cell(mean: GeometricMean | None) -> Cell:
    if mean is None:
        return Cell(NOTHING)
    tone: Tone | None = "good" if mean.low > 1 else "bad" if mean.high < 1 else None
    return speed_cell(mean, tone)


# Causes and failures.


def _causes(
    causes: Sequence[SharedCause], count: int, ids: _Ids, *, is_export: bool = False
) -> Iterator[Block]:
    from graphdoctor.rules.catalog import PAGES

    cards = []
    for number, cause in enumerate(causes, start=1):
        message = cause.message
        # Of several functions what their rule finds, since the message of one speaks of its own
        # line. Those that an export stops at say the same, in whichever function.
        page = PAGES.get(cause.code) if cause.functions > 1 and not is_export else None
        if page is not None:
            title = page.title().rstrip(".")
            message = title[:1].lower() + title[1:]
        targets = Row("targets", Note(_names(cause.targets, ids, _MAX_TARGETS)), show="long")
        anchor = f"{'export' if is_export else 'cause'}-{number}"
        cards.append(words.cause_card(cause, message, anchor, targets))
    yield Cards(tuple(cards))
    if (more := count - len(causes)) > 0:
        less = "of fewer targets" if is_export else "costs less" if more == 1 else "cost less"
        yield Note(f"{counted(more, 'more cause')} {less}.", "dim")


def _names(names: Sequence[str], ids: _Ids, most: int) -> Inline:
    """Return names that a page links to their rows."""
    more = (f" and {len(names) - most:,} more",) if len(names) > most else ()
    return joined([Span(name, link=ids.get(name)) for name in names[:most]]), *more


def _failures(report: SurveyReport, ids: _Ids) -> Section:
    def which(failure: words.Failure) -> Cell:
        under = f"under {few_text(failure.variants, _MAX_VARIANTS)}"
        names = _names(failure.targets, ids, _MAX_NAMES)
        return Cell(names, under if len(report.variants) > 1 else "")

    failures = words.failures(report.rows)
    table = words.failure_table(failures, which, longest=_MAX_ERROR, most=_MAX_FAILURES)
    text = "Rows with the same error are together; … stands for numbers and the target's name."
    content = (table, Note(text, "dim")) if failures else ()
    return Section("What failed", content, "Failures", len(failures))


def _noted(report: SurveyReport) -> Iterator[Row]:
    names = {row.key: words.row_name(row, len(report.variants)) for row in report.rows}
    for row in report.rows:
        if row.is_flaky:
            text = (Span(names[row.key]), f": {words.flaky_text(row)}")
            yield Row("flaky", Note(text, "warning"))
    if noisy := [names[row.key] for row in report.rows if row.is_noisy]:
        shown = Span(few_text(noisy, 4 * _MAX_NAMES))
        yield Row("noisy", (Note(f"{words.NOISY}:", "warning"), shown))


def _measured(report: SurveyReport) -> Iterator[Block]:
    rows = []
    for variant in report.variants:
        settings = {**variant.settings, "python": variant.python}.items()
        text = _settings_text(settings) or "nothing of its own"
        rows.append(Row(Span(variant.name), Span(text), show="long"))
    if report.options:
        rows.append(Row("options", Span(_settings_text(report.options.items())), show="long"))
    rows += [Row("note", Note(note, "dim")) for note in report.notes]
    yield Rows(rows, "note", _MAX_NOTES)
    took = None
    if report.seconds is not None:
        on = "" if report.engine is None else f" on {report.engine}"
        took = f"Took {about_time(report.seconds)}{on}."
    kept = f"{counted(report.kept, 'row')} kept from an earlier run." if report.kept else None
    if text := join_texts(" ", took, kept):
        yield Note(text, "dim")


def _settings_text(settings: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings if value is not None)
