"""A ``SurveyReport`` in, its view out: the answer by variant and family, what costs most over all
targets, what failed, then every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.survey import GeometricMean, SharedCause, SurveyGroup, SurveyReport
from graphdoctor.views import parts
from graphdoctor.views import survey_words as words
from graphdoctor.views.measures import interval_text, seconds_text
from graphdoctor.views.next_step import after_survey
from graphdoctor.views.parts import NOTHING, Block, Cell, Note, Row, Section, Span, Tone
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
"""Of the rows that a page has, by the names of their targets."""


def survey_view(report: SurveyReport, *, pages: str | None = None) -> parts.View:
    """Return the survey as a tree; ``pages`` is as in ``RenderOptions``."""
    title, content = tuple(_title(report)), tuple(_parts(report, pages))
    return parts.View(title, "survey", content, report.graphdoctor_version, after_survey(report))


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
        values = {value: None for row in report.rows if (value := getattr(row, name)) is not None}
        if values:
            text = few_text(tuple(values), _MAX_TITLES)
            yield f"torch {text}" if name == "torch" else text
    yield report.started.partition("T")[0]


def _parts(report: SurveyReport, pages: str | None) -> Iterator[Block]:
    from graphdoctor.views.html.survey import row_ids, rows_drawing

    pairs = zip(report.rows, row_ids(report.rows), strict=True)
    ids = {row.name: id for row, id in reversed(list(pairs))}
    yield parts.Verdict(*verdict(report))
    if (missing := report.planned - len(report.rows)) > 0:
        are, them = ("is", "it") if missing == 1 else ("are", "them")
        yield Note(
            f"{missing:,} of {counted(report.planned, 'piece')} {are} missing; the same command "
            f"with --resume runs {them}.",
            "warning",
        )
    yield from _groups(report)
    summary = report.summary
    causes = _causes(summary.causes, summary.cause_count, ids)
    yield Section("What costs most over all targets", causes, "Causes")
    exports = _causes(summary.export_causes, summary.export_cause_count, ids, is_export=True)
    yield Section("What torch.export stops at", exports, "Exports")
    yield _failures(report, ids)
    yield Section("Flaky and noisy", parts.Rows(_noted(report), "row", _MAX_NOTED))
    yield Section("All rows", rows_drawing(report, pages), "Rows", len(report.rows))
    yield Section("How it was measured", _measured(report), "Made")


# The answer.


def verdict(report: SurveyReport) -> tuple[str, Tone]:
    """Return how many targets pass, in a sentence, and whether that is good news."""
    groups = _variant_groups(report)
    judged, passed = sum(group.judged for group in groups), sum(group.passed for group in groups)
    unjudged = len(report.rows) - judged
    if not report.rows:
        return "No piece has finished.", "bad"
    if not judged:
        return "No target was judged: none came as far as torch.compile.", "bad"
    # What nobody knows is no good news.
    is_good = passed == judged and not unjudged and len(report.rows) == report.planned
    tone: Tone = "good" if is_good else "warning" if passed else "bad"
    were = "was" if unjudged == 1 else "were"
    if len(report.variants) == 1:
        noun = "judged target" if unjudged else "target"
        text = f"{passed:,} of {counted(judged, noun)} {_pass(judged)}{_whole_text(report)}."
        return text + (f" {unjudged:,} more {were} not judged." if unjudged else ""), tone
    rows = ((row.name, row.is_passed) for row in report.rows if row.is_judged)
    targets = list(grouped(rows).values())
    everywhere = sum(sum(passes) == len(report.variants) for passes in targets)
    nowhere = sum(not any(passes) for passes in targets)
    text = f"{everywhere:,} of {counted(len(targets), 'target')} {_pass(len(targets))}"
    text += f" under every variant{f', {nowhere:,} under none' if nowhere else ''}."
    text += f" {counted(unjudged, 'piece')} {were} not judged." if unjudged else ""
    return join_texts(" ", text, _fastest(groups)), tone


def _pass(count: int) -> str:
    return "passes" if count == 1 else "pass"


def _whole_text(report: SurveyReport) -> str:
    """Return how many of the rows that pass have no breaks; empty if that is unknown."""
    counts = Counter(row.is_whole for row in report.rows if row.is_passed)
    whole, unknown, total = counts[True], counts[None], counts.total()
    if unknown == total:
        return ""
    if whole == total:
        return ", without breaks" if whole == 1 else ", all of them without breaks"
    text = f", {whole or 'none'} of them without breaks"
    return f"{text} (unknown for {unknown:,})" if unknown else text


def _fastest(groups: Sequence[SurveyGroup]) -> str | None:
    """Return which variant is fastest on the targets that all have; None if they share none."""
    means = [(mean, group.variant) for group in groups if (mean := group.speedup_shared)]
    if len(means) < 2:
        return None
    (best, name), (second, other), *_ = sorted(means, key=lambda pair: -pair[0].ratio)
    over = "one target" if best.count == 1 else f"{best.count:,} targets"
    where = f"Over the {over} timed under every variant"
    ratio, other_ratio = factor_text(best.ratio), factor_text(second.ratio)
    if best.high < 1:
        return f"{where}, all are slower than eager mode: {name} {ratio}, {other} {other_ratio}."
    if best.low > second.high:
        return f"{where}, {name} is fastest: {ratio}, {other} {other_ratio}."
    sides = f"{name} ({ratio}) and {other} ({other_ratio})"
    return f"{where}, there is no clear difference between {sides}."


# Variants and families.


def _variant_groups(report: SurveyReport) -> list[SurveyGroup]:
    return [group for group in report.summary.groups if group.family is None]


def _groups(report: SurveyReport) -> Iterator[Block]:
    groups = _variant_groups(report) if report.rows else []
    yield _group_table("variant", [(group.variant, group) for group in groups], report)
    outcomes = grouped(
        (row.variant, words.outcome_text(row)) for row in report.rows if not row.is_judged
    )
    for counts, variants in grouped(
        (tuple(Counter(texts).most_common()), variant) for variant, texts in outcomes.items()
    ).items():
        names = f" ({', '.join(variants)})" if len(report.variants) > 1 else ""
        texts = ", ".join(f"{number:,} {text}" for text, number in counts)
        yield Note(f"Not judged{names}: {texts}", "dim")
    if any(group.speedup is not None for group in groups):
        over = ""
        if len(groups) > 1:
            over = ", over the targets that pass under that variant"
            if all(group.speedup_shared is None for group in groups):
                over += "; none passes under all, so don't compare them"
            elif all(group.speedup_shared == group.speedup for group in groups):
                over = ", over the same targets for each variant"
            else:
                over += ", and over those that pass under all"
        yield Note(f"Speed-up: geometric mean with its 95% interval{over}.", "dim")
    families: dict[str, dict[str, SurveyGroup]] = {}
    for group in report.summary.groups:
        if group.family is not None:
            families.setdefault(group.family, {})[group.variant] = group
    if len(families) > 1:
        yield Section("Families", _family_table(families, report))


def _family_table(families: Mapping[str, dict[str, SurveyGroup]], report: SurveyReport) -> Block:
    """Return a row for each family, those with most rows first; of several variants, a column for
    each.
    """
    names = [variant.name for variant in report.variants]
    ordered = sorted(
        families.items(),
        key=lambda family: (-sum(group.pieces for group in family[1].values()), family[0]),
    )
    if len(names) == 1:
        single = [(family, groups[names[0]]) for family, groups in ordered]
        return _group_table("family", single, report, _MAX_FAMILIES)
    rows = []
    for family, groups in ordered:
        cells = [Cell(Span(family))]
        for name in names:
            group = groups.get(name)
            mean = None if group is None else group.speedup
            detail = "" if mean is None else factor_text(mean.ratio)
            cells.append(Cell(NOTHING) if group is None else _passed_cell(group, detail))
        rows.append(cells)
    columns = [parts.Column("family"), *(parts.Column(Span(name), rank=1) for name in names)]
    return parts.Table(columns, rows, "row", _MAX_FAMILIES, "Figures of each family")


def _group_table(
    heading: str,
    groups: Sequence[tuple[str, SurveyGroup]],
    report: SurveyReport,
    most: int | None = None,
) -> parts.Table:
    """Return a row for each group; columns that are unknown for all are left out."""
    shared = max((mean.count for _, group in groups if (mean := group.speedup_shared)), default=0)
    is_compared = any(group.speedup_shared != group.speedup for _, group in groups)
    names = ["passed", "no breaks", "speed-up", f"same {counted(shared, 'target')}"]
    names += ["faster / slower", "cold compile", "exports"]
    rows = []
    for name, group in groups:
        rows_here = [
            row
            for row in report.rows
            if row.variant == group.variant and group.family in (None, row.family)
        ]
        known_wholes = sum(row.is_whole is not None for row in rows_here)
        tried = [row.exports for row in rows_here if row.exports is not None]
        cold = group.compile_cold_s
        rate = "" if group.pass_rate is None else percent(group.pass_rate)
        rows.append(
            (
                Span(name),
                _passed_cell(group, rate),
                f"{group.whole:,} of {known_wholes:,}" if known_wholes else NOTHING,
                _mean_cell(group.speedup),
                _mean_cell(group.speedup_shared if heading == "variant" and is_compared else None),
                NOTHING if group.speedup is None else f"{group.faster:,} / {group.slower:,}",
                NOTHING if cold is None else seconds_text(cold),
                f"{sum(tried):,} of {len(tried):,}" if tried else NOTHING,
            )
        )
    columns = map(parts.Column, (heading, *names))
    return parts.Table(columns, rows, "row", most, f"Figures of each {heading}")


def _passed_cell(group: SurveyGroup, detail: str) -> Cell:
    if not group.judged:
        return Cell("none judged", detail)
    tone: Tone = "good" if group.passed == group.judged else "warning" if group.passed else "bad"
    return Cell(f"{group.passed:,} of {group.judged:,}", detail, tone)


def _mean_cell(mean: GeometricMean | None) -> Cell:
    if mean is None:
        return Cell(NOTHING)
    tone: Tone | None = "good" if mean.low > 1 else "bad" if mean.high < 1 else None
    return Cell(factor_text(mean.ratio), interval_text(mean.low, mean.high), tone)


# Causes and failures.


def _causes(
    causes: Sequence[SharedCause], count: int, ids: _Ids, *, is_export: bool = False
) -> Iterator[Block]:
    cards = []
    for number, cause in enumerate(causes, start=1):
        # Those that an export stops at say the same, in whichever function.
        message = cause.message if is_export else _cause_message(cause)
        targets = Row("targets", Note(_names(cause.targets, ids, _MAX_TARGETS)), show="long")
        anchor = f"{'export' if is_export else 'cause'}-{number}"
        cards.append(words.cause_card(cause, message, anchor, targets))
    yield parts.Cards(tuple(cards))
    if (more := count - len(causes)) > 0:
        less = "of fewer targets" if is_export else "costs less" if more == 1 else "cost less"
        yield Note(f"{counted(more, 'more cause')} {less}.", "dim")


def _cause_message(cause: SharedCause) -> str:
    """Return what it is: of several functions what their rule finds, since the message of one
    speaks of its own line.
    """
    if cause.functions > 1:
        from graphdoctor.rules.catalog import PAGES

        if (page := PAGES.get(cause.code)) is not None:
            title = page.title().rstrip(".")
            return title[:1].lower() + title[1:]
    return cause.message


def _names(names: Sequence[str], ids: _Ids, most: int) -> parts.Inline:
    """Return names that a page links to their rows."""
    more = (f" and {len(names) - most:,} more",) if len(names) > most else ()
    return parts.joined([Span(name, link=ids.get(name)) for name in names[:most]]), *more


def _failures(report: SurveyReport, ids: _Ids) -> Section:
    def which(failure: words.Failure) -> Cell:
        under = f"under {few_text(failure.variants, _MAX_VARIANTS)}"
        names = _names(failure.targets, ids, _MAX_NAMES)
        return Cell(names, under if len(report.variants) > 1 else "")

    failures = words.failures(report.rows)
    table = words.failure_table(failures, which, longest=_MAX_ERROR, most=_MAX_FAILURES)
    text = "Rows with the same error are together; … stands for numbers and the target's name."
    note = Note(text, "dim")
    return Section("What failed", (table, note) if failures else (), "Failures", len(failures))


def _noted(report: SurveyReport) -> Iterator[Row]:
    has_variants = len(report.variants) > 1
    noisy = []
    for row in report.rows:
        name = words.row_name(row, has_variants=has_variants)
        if row.is_flaky:
            yield Row("flaky", Note((Span(name), f": {words.flaky_text(row)}"), "warning"))
        noisy += [name] if row.is_noisy else []
    if noisy:
        names = Span(few_text(noisy, 4 * _MAX_NAMES))
        yield Row("noisy", (Note(f"{words.NOISY}:", "warning"), names))


def _measured(report: SurveyReport) -> Iterator[Block]:
    rows = []
    for variant in report.variants:
        settings = {**variant.settings, "python": variant.python}.items()
        text = _settings_text(settings) or "nothing of its own"
        rows.append(Row(Span(variant.name), Span(text), show="long"))
    if report.options:
        rows.append(Row("options", Span(_settings_text(report.options.items())), show="long"))
    rows += [Row("note", Note(note, "dim")) for note in report.notes]
    yield parts.Rows(rows, "note", _MAX_NOTES)
    took, rate = None, report.summary.pieces_per_hour
    if report.seconds is not None:
        on = "" if report.engine is None else f" on {report.engine}"
        speed = "" if rate is None else f", {rate:,.0f} pieces an hour"
        took = f"Took {about_time(report.seconds)}{on}{speed}."
    kept = f"{counted(report.kept, 'row')} kept from an earlier run." if report.kept else None
    if text := join_texts(" ", took, kept):
        yield Note(text, "dim")


def _settings_text(settings: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings if value is not None)
