"""A survey in words: what every view says of its variants, families, causes, failures and rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from graphdoctor.facts.base import grouped
from graphdoctor.facts.survey import SURVEY_STATUSES
from graphdoctor.views.measures import interval_text, seconds_text
from graphdoctor.views.parts import (
    NOTHING,
    Card,
    Cell,
    Column,
    Heading,
    Inline,
    Mark,
    Note,
    Place,
    Row,
    Rows,
    Source,
    Span,
    Table,
    Tone,
    cell_line,
)
from graphdoctor.views.words import about_time, base_name, few_text
from graphdoctor.wording import (
    bytes_text,
    counted,
    duration,
    factor_text,
    join_texts,
    percent,
    shortened,
)

if TYPE_CHECKING:
    from graphdoctor.facts.survey import (
        GeometricMean,
        SharedCause,
        SurveyCause,
        SurveyGroup,
        SurveyReport,
        SurveyRow,
        SurveyStage,
        SurveyStatus,
    )

STATUS_TEXTS: dict[SurveyStatus, str] = {
    "ok": "ok",
    "wrong": "wrong results",
    "not_compiled": "not compiled",
    "compile_failed": "compile failed",
    "eager_failed": "eager failed",
    "no_inputs": "no inputs",
    "load_failed": "load failed",
    "crashed": "crashed",
    "timeout": "timed out",
    "out_of_memory": "out of memory",
    "lost": "lost",
    "skipped": "skipped",
}
"""What views call each status."""

STAGE_TEXTS: dict[SurveyStage, str] = {
    "prepare": "preparing",
    "load": "loading",
    "eager": "eager mode",
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor",
    "backend": "backend",
    "call": "compiled call",
    "bench": "bench",
    "export": "export",
    "fix": "fixes",
}
"""What was going on, to be put between brackets."""

FINDING = "first finding"
"""Heading of the column that holds it."""

NOISY = "The machine was busy, so small differences can't be seen"
"""What is said of noisy rows."""

_IMPLIED: dict[SurveyStatus, tuple[SurveyStage, ...]] = {
    "eager_failed": ("eager",),
    "no_inputs": ("prepare", "load"),
    "load_failed": ("load",),
}
"""Stages that a status says by itself."""
_STATUS_TONES: dict[SurveyStatus, Tone] = {
    "ok": "good",
    "wrong": "bad",
    "compile_failed": "bad",
    "crashed": "bad",
    "timeout": "bad",
    "out_of_memory": "bad",
}
_NUMBER = re.compile(r"\d+|0x[0-9a-fA-F]+|\d*\.?\d+e[+-]?\d+")
_LEAST_NAME = 3
"""Characters of a name that is looked for within words: shorter ones are in other words by
chance."""
_MOST_CHARACTERS = 2_000
"""Of an error; no two of this length that begin alike are told apart."""
_OTHER = "…"
_MAX_PLACES = 60
_MAX_TITLES = 3
"""Versions or devices that a title names."""
_SHORT_ERROR = 120
"""Characters of an error in the line of a row."""
_CELL_ERROR = 90
_MAX_ROWS = 20
"""Rows that a terminal shows; of more than these it shows none."""


# The head.


def title_parts(report: SurveyReport) -> list[str]:
    """What was surveyed: name, size, torch, device, library, date."""
    targets = len({row.name for row in report.rows})
    if len(report.rows) == report.planned == targets * len(report.variants):
        size = f"{counted(targets, 'target')} × {counted(len(report.variants), 'variant')}"
    else:
        size = f"{len(report.rows):,} of {counted(report.planned, 'piece')}, {counted(len(report.variants), 'variant')}"
    parts = [report.name, size]
    parts += [f"shard {report.shard}"] if report.shard is not None else []
    parts += (
        [f"torch {', '.join(torches)}"]
        if (torches := _distinct(row.torch for row in report.rows))
        else []
    )
    parts += _distinct(row.device for row in report.rows)
    parts += _distinct(row.library for row in report.rows)
    return [*parts, report.started.partition("T")[0]]


def _distinct(values: Iterable[str | None]) -> list[str]:
    found = list(dict.fromkeys(value for value in values if value is not None))
    more = len(found) - _MAX_TITLES
    return found if more <= 0 else [*found[:_MAX_TITLES], f"{more} more"]


def verdict(report: SurveyReport) -> tuple[str, Tone]:
    """How many targets pass, in a sentence, and whether that is good news."""
    whole = total_groups(report)
    judged, passed = sum(group.judged for group in whole), sum(group.passed for group in whole)
    if not report.rows:
        return "No piece has finished.", "bad"
    if not judged:
        return "No target was judged: none came as far as torch.compile.", "bad"
    unjudged = len(report.rows) - judged
    # What nobody knows is no good news.
    is_good = passed == judged and not unjudged and len(report.rows) == report.planned
    tone: Tone = "good" if is_good else "warning" if passed else "bad"
    others = (
        f" {unjudged:,} more {'was' if unjudged == 1 else 'were'} not judged." if unjudged else ""
    )
    if len(report.variants) == 1:
        judged_of = "" if judged == len(report.rows) else "judged "
        text = f"{passed:,} of {counted(judged, f'{judged_of}target')} {'passes' if judged == 1 else 'pass'}"
        return f"{text}{_whole_text(report.rows)}.{others}", tone
    everywhere, nowhere, targets = _by_target(report)
    passes = "passes" if targets == 1 else "pass"
    text = f"{everywhere:,} of {counted(targets, 'target')} {passes} under every variant"
    text += f", {nowhere:,} under none." if nowhere else "."
    if unjudged:
        text += f" {counted(unjudged, 'piece')} {'was' if unjudged == 1 else 'were'} not judged."
    return text if (fastest := _fastest(whole)) is None else f"{text} {fastest}", tone


def _whole_text(rows: Iterable[SurveyRow]) -> str:
    """How many of the rows that pass have no breaks; empty if that is unknown."""
    found = Counter(row.is_whole for row in rows if row.is_passed)
    without, unknown = found[True], found[None]
    if unknown == found.total():
        return ""
    if without == found.total():
        return ", without breaks" if without == 1 else ", all of them without breaks"
    text = f", {without or 'none'} of them without breaks"
    return f"{text} (unknown for {unknown:,})" if unknown else text


def _by_target(report: SurveyReport) -> tuple[int, int, int]:
    """How many targets pass under every variant, how many under none, and how many were judged."""
    found = list(
        grouped((row.name, row.is_passed) for row in report.rows if row.is_judged).values()
    )
    return (
        sum(sum(each) == len(report.variants) for each in found),
        sum(not any(each) for each in found),
        len(found),
    )


def _fastest(groups: Sequence[SurveyGroup]) -> str | None:
    """Which variant is fastest on the targets that all have; None if they share none."""
    timed = [
        (group.variant, group.speedup_shared)
        for group in groups
        if group.speedup_shared is not None
    ]
    if len(timed) < 2:
        return None
    (name, best), (other, second), *_ = sorted(timed, key=lambda found: -found[1].ratio)
    where = f"Over the {'one ' if best.count == 1 else ''}{_of_targets(best.count)} timed under every variant"
    if best.high < 1:
        slow = f"{name} {factor_text(best.ratio)}, {other} {factor_text(second.ratio)}"
        return f"{where}, all are slower than eager mode: {slow}."
    if best.low > second.high:
        return f"{where}, {name} is fastest: {factor_text(best.ratio)}, {other} {factor_text(second.ratio)}."
    sides = f"{name} ({factor_text(best.ratio)}) and {other} ({factor_text(second.ratio)})"
    return f"{where}, there is no clear difference between {sides}."


def _of_targets(count: int) -> str:
    return "target" if count == 1 else f"{count:,} targets"


def missing_text(report: SurveyReport) -> str | None:
    """That pieces are missing, and how to run them; None if all are there."""
    missing = report.planned - len(report.rows)
    if missing <= 0:
        return None
    text = f"{missing:,} of {counted(report.planned, 'piece')} {'is' if missing == 1 else 'are'} missing"
    return f"{text}; the same command with --resume runs {'it' if missing == 1 else 'them'}."


def total_groups(report: SurveyReport) -> list[SurveyGroup]:
    """For each variant, all of its rows."""
    return [group for group in report.summary.groups if group.family is None]


# Variants and families.


def family_table(report: SurveyReport, most: int) -> Table:
    """A row for each family, those with most rows first; of several variants, a column for each."""
    found: dict[str, dict[str, SurveyGroup]] = {}
    for group in report.summary.groups:
        if group.family is not None:
            found.setdefault(group.family, {})[group.variant] = group
    families = sorted(
        found.items(), key=lambda each: (-sum(group.pieces for group in each[1].values()), each[0])
    )
    names = [variant.name for variant in report.variants]
    if len(names) == 1:
        return group_table(
            "family", [(family, own[names[0]]) for family, own in families], report.rows, most
        )
    rows = (
        [Cell(Span(family)), *(_passed_cell(own.get(name), has_speedup=True) for name in names)]
        for family, own in families
    )
    headings = [Column("family"), *(Column(Span(name), rank=1) for name in names)]
    return Table(headings, rows, "row", most, "Figures of each family")


def _passed_cell(group: SurveyGroup | None, *, has_speedup: bool = False) -> Cell:
    """How many passed of those that were judged; as its detail, their share or their speed-up."""
    if group is None:
        return Cell(NOTHING)
    detail = "" if group.pass_rate is None else percent(group.pass_rate)
    if has_speedup:
        detail = "" if group.speedup is None else factor_text(group.speedup.ratio)
    if not group.judged:
        return Cell("none judged", detail)
    tone: Tone = "good" if group.passed == group.judged else "warning" if group.passed else "bad"
    return Cell(f"{group.passed:,} of {group.judged:,}", detail, tone)


def group_table(
    heading: str,
    named: Sequence[tuple[str, SurveyGroup]],
    rows: Sequence[SurveyRow],
    most: int | None = None,
) -> Table:
    """A row for each group; columns that are unknown for all are left out."""
    groups = [group for _, group in named]
    shared = next(
        (group.speedup_shared for group in groups if group.speedup_shared is not None), None
    )
    is_compared = heading == "variant" and any(
        group.speedup != group.speedup_shared for group in groups
    )
    same = "" if shared is None else f"same {_of_targets(shared.count)}"
    names = (
        heading,
        "passed",
        "no breaks",
        "speed-up",
        same,
        "faster / slower",
        "cold compile",
        "exports",
    )
    body = (
        (
            Span(name),
            _passed_cell(one),
            _whole_cell(one, rows),
            mean_cell(one.speedup),
            mean_cell(one.speedup_shared if is_compared else None),
            NOTHING if one.speedup is None else f"{one.faster:,} / {one.slower:,}",
            seconds_cell(one.compile_cold_s),
            _exports_cell(one, rows if heading == "variant" else ()),
        )
        for name, one in named
    )
    return Table(map(Column, names), body, "row", most, f"Figures of each {heading}")


def _whole_cell(group: SurveyGroup, rows: Iterable[SurveyRow]) -> Cell:
    """How many have no breaks, skipped frames and functions over their limit, of those of which
    that is known.
    """
    own = (
        row for row in rows if row.variant == group.variant and group.family in (None, row.family)
    )
    known = sum(row.is_whole is not None for row in own)
    return Cell(f"{group.whole:,} of {known:,}" if known else NOTHING)


def mean_cell(mean: GeometricMean | None) -> Cell:
    """The mean; as its detail, its interval."""
    if mean is None:
        return Cell(NOTHING)
    tone: Tone | None = "good" if mean.low > 1 else "bad" if mean.high < 1 else None
    return Cell(factor_text(mean.ratio), interval_text(mean.low, mean.high), tone)


def seconds_cell(seconds: float | None) -> str:
    """A time; a dash if it is unknown."""
    return NOTHING if seconds is None else seconds_text(seconds)


def _exports_cell(group: SurveyGroup, rows: Iterable[SurveyRow]) -> Cell:
    """How many are exported of those for which that was tried."""
    tried = [
        row.exports for row in rows if row.variant == group.variant and row.exports is not None
    ]
    return Cell(f"{sum(tried):,} of {len(tried):,}" if tried else NOTHING)


def means_text(report: SurveyReport) -> str | None:
    """What the speed-ups are means of; None if nothing was timed."""
    groups = total_groups(report)
    if all(group.speedup is None for group in groups):
        return None
    text = "Speed-up: geometric mean with its 95% interval"
    if len(groups) == 1:
        return f"{text}."
    if all(group.speedup_shared is None for group in groups):
        return f"{text}, over the targets that pass under that variant; none passes under all, so don't compare them."
    if all(group.speedup == group.speedup_shared for group in groups):
        return f"{text}, over the same targets for each variant."
    return f"{text}, over the targets that pass under that variant, and over those that pass under all."


def unjudged_texts(report: SurveyReport) -> list[tuple[str, str]]:
    """What says nothing about torch.compile: names of variants, and how many rows of them came out
    how.
    """
    unjudged = grouped(
        (row.variant, outcome_text(row.status, row.stage))
        for row in report.rows
        if not row.is_judged
    )
    known = ((each.name, Counter(unjudged.get(each.name, ()))) for each in report.variants)
    found = grouped((tuple(counts.most_common()), variant) for variant, counts in known if counts)
    return [
        (", ".join(variants), ", ".join(f"{number:,} {text}" for text, number in counts))
        for counts, variants in found.items()
    ]


def options_text(found: Mapping[str, object]) -> str:
    """What a variant changes, or what was measured, with which limits."""
    return ", ".join(f"{name}={value}" for name, value in found.items() if value is not None)


# Causes.


def cause_card(cause: SharedCause, message: str, anchor: str, targets: Row) -> Card:
    """A card of a cause, which says in how many lines of its function or in how many functions it
    is.
    """
    functions = counted(cause.functions, "function")
    where = (
        functions
        if cause.functions > 1
        else f"{counted(len(cause.lines), 'line')} of {cause.function}"
    )
    head = f"{counted(len(cause.targets), 'target')}, {where}: {message}"
    rows = []
    if len(cause.places) > 1:
        rows.append(Row("places", Span(few_text(cause.places, _MAX_PLACES))))
    rows += [Row("costs", costs)] if (costs := cause_costs(cause)) else []
    if cause.fix is not None and cause.fix_verified:
        first, *others = cause.fix_verified
        verified = f"{len(cause.fix_verified):,} targets" if others else first
        rows.append(Row("fix", Note(f"{cause.fix} (verified on {verified})", "good")))
    elif cause.fix is not None:
        rows.append(Row("try", cause.fix))
    return Card(
        (Heading(cause.code, head, cause.severity, anchor),),
        Place(cause.file, cause.lines[0]),
        cause.function,
        cause.package,
        (*((Source(cause.lines[0], cause.text),) if cause.text else ()), Rows((*rows, targets))),
    )


def cause_message(cause: SharedCause) -> str:
    """What it is: of several functions what their rule finds, since the message of one speaks of
    its own line.
    """
    if cause.functions > 1:
        from graphdoctor.rules.catalog import PAGES

        if (page := PAGES.get(cause.code)) is not None:
            title = page.title().rstrip(".")
            return title[:1].lower() + title[1:]
    return cause.message


def cause_costs(cause: SurveyCause) -> str:
    """What it costs, as far as that was measured, a shared one over all rows; empty if nothing is
    known.
    """
    left = (
        f"{counted(cause.eager_frames, 'function')} left to eager mode"
        if cause.eager_frames
        else None
    )
    return join_texts(
        ", ", left, None if cause.call_us is None else f"{duration(cause.call_us)} of calls"
    )


# Failures, and rows to look at.


@dataclass(frozen=True)
class Failure:
    """Rows that failed in the same place with the same error, which has a sign where they
    differ.
    """

    status: SurveyStatus
    stage: SurveyStage | None
    error: str | None
    rows: tuple[SurveyRow, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of their targets."""
        return tuple(dict.fromkeys(row.name for row in self.rows))

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of their variants."""
        return tuple(dict.fromkeys(row.variant for row in self.rows))


def failures(rows: Iterable[SurveyRow]) -> list[Failure]:
    """What didn't pass: first what says something about torch.compile, those of most targets first.

    Errors are the same if they differ only in numbers and in words that hold the target's own name.
    """
    failed = [(row, _pieces(row)) for row in rows if not row.is_passed]
    groups = grouped(
        ((row.status, row.stage, row.error_type, tuple(_pattern(row, own))), (row, own))
        for row, own in failed
    )
    found = []
    for (status, stage, *_), together in groups.items():
        columns = zip(*(own for _, own in together), strict=True)
        error = "".join(column[0] if len(set(column)) == 1 else _OTHER for column in columns)
        found.append(Failure(status, stage, error or None, tuple(row for row, _ in together)))
    return sorted(found, key=lambda failure: (not failure.rows[0].is_judged, -len(failure.targets)))


def _own_name(row: SurveyRow) -> str:
    """What errors call the target: the last part of its name."""
    return re.split(r"[/:]", row.name)[-1]


def _pieces(row: SurveyRow) -> list[str]:
    """Its error: the target's name, words, and what is between them."""
    name = _own_name(row)
    return re.findall(
        rf"(?<!\w){re.escape(name)}(?!\w)|\w+|\W" if name else r"\w+|\W", failure_text(row) or ""
    )


def _pattern(row: SurveyRow, pieces: Iterable[str]) -> Iterator[str]:
    """What errors of other targets must share with it: a sign stands for the target's own name, and
    for numbers.
    """
    name = _own_name(row)
    letters = _letters(name)
    for piece in pieces:
        is_own = piece == name or (len(letters) >= _LEAST_NAME and letters in _letters(piece))
        yield _OTHER if is_own or _NUMBER.fullmatch(piece) else piece


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text).casefold()


def failure_text(row: SurveyRow) -> str | None:
    """Why a row doesn't pass, in one line with the name of the exception's type; None if it does,
    or says nothing.
    """
    kind = None if row.error_type is None else row.error_type.rpartition(".")[2]
    if row.is_passed or row.error is None or not row.error.strip():
        return None if row.is_passed else kind
    text = shortened(row.error, _MOST_CHARACTERS)
    return text if kind is None or kind in text else f"{kind}: {text}"


def outcome_text(status: SurveyStatus, stage: SurveyStage | None) -> str:
    """How a row came out, and where: ``compile failed (Inductor)``."""
    text = STATUS_TEXTS[status]
    return text if (part := _stage_text(status, stage)) is None else f"{text} ({part})"


def _stage_text(status: SurveyStatus, stage: SurveyStage | None) -> str | None:
    """What failed; None if nothing did, or the status says it."""
    return None if stage is None or stage in _IMPLIED.get(status, ()) else STAGE_TEXTS[stage]


def failure_table(
    found: Sequence[Failure],
    which: Callable[[Failure], Cell],
    *,
    longest: int,
    unknown: str = NOTHING,
    most: int | None = None,
) -> Table:
    """A row for each distinct error; ``which`` says whose it is."""
    rows = (
        (
            Cell(outcome_text(one.status, one.stage), tone=status_cell(one.rows[0]).tone),
            f"{len(one.targets):,}",
            Span(shortened(one.error or unknown, longest)),
            which(one),
        )
        for one in found
    )
    return Table(("#outcome", "#targets", "error", "which"), rows, "error", most, "By error")


def row_name(row: SurveyRow, *, has_variants: bool) -> str:
    """The name of a row; with that of its variant where there are several."""
    return f"{row.name} {row.variant}" if has_variants else row.name


def flaky_text(row: SurveyRow) -> str:
    """How the attempts of a flaky row came out: ``crashed, then ok``."""
    return ", then ".join(STATUS_TEXTS[status] for status in (*row.earlier, row.status))


def took_text(report: SurveyReport) -> str | None:
    """How long it took on what, and what was kept; None if that is unknown."""
    took, rate = None, report.summary.pieces_per_hour
    if report.seconds is not None:
        on = "" if report.engine is None else f" on {report.engine}"
        took = f"Took {about_time(report.seconds)}{on}{'' if rate is None else f', {rate:,.0f} pieces an hour'}."
    kept = f"{counted(report.kept, 'row')} kept from an earlier run." if report.kept else None
    return join_texts(" ", took, kept) or None


# Rows.


_COUNT = "{:,.0f}".format


@dataclass(frozen=True)
class RowField:
    """Something that is known of a row; with a heading, the table of all rows has a column of
    it.
    """

    label: str
    text: Callable[[Any], str] = str
    heading: str = ""
    rank: int = 0

    @property
    def is_counted(self) -> bool:
        """Whether every run that came to its end has it."""
        return self.text in (_COUNT, percent)


def seconds_of(seconds: float) -> str:
    """How long a piece takes: ``3.2 s``, ``21 s``, ``4 min``."""
    return (
        f"{seconds:.1f} s"
        if seconds < 9.95
        else f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
    )


FIELDS = {
    "calls": RowField("calls", _COUNT),
    "break_sites": RowField("break sites", _COUNT, "breaks", 3),
    "skipped_frames": RowField("skipped frames", _COUNT, "skipped", 11),
    "recompiles": RowField("recompiles", _COUNT, "recompiles", 8),
    "frames_over_limit": RowField("functions over the recompile limit", _COUNT),
    "coverage": RowField("coverage", percent, "coverage", 5),
    "graphs": RowField("graphs", _COUNT, "graphs", 10),
    "is_steady": RowField("stops compiling when calls repeat"),
    "compile_cold_s": RowField("cold compile", seconds_text, "cold compile", 6),
    "compile_s": RowField("compile of the recorded run", seconds_text, "compile", 6),
    "compile_warm_s": RowField("warm compile", seconds_text),
    "call_us": RowField("call", duration),
    "eager_us": RowField("eager call", duration),
    "speedup": RowField("speed-up", factor_text, "speed-up", 4),
    "noise": RowField("eager beside eager", factor_text),
    "peak_memory_bytes": RowField("peak memory", lambda size: bytes_text(int(size)), "memory", 9),
    "correct": RowField("correct results", heading="correct", rank=12),
    "exports": RowField("torch.export", heading="exports", rank=7),
    "export_error": RowField("torch.export stops at"),
    "target": RowField("target"),
    "variant": RowField("variant"),
    "family": RowField("family"),
    "torch": RowField("torch"),
    "library": RowField("library"),
    "python": RowField("Python"),
    "device": RowField("device"),
    "host": RowField("machine"),
    "dtype": RowField("dtype"),
    "batch": RowField("batch size", "{:,}".format),
    "started": RowField("started"),
    "seconds": RowField("took", seconds_of),
}
"""Fields of a row, as they are named and written everywhere, in the order of a table's columns."""


def row_table(report: SurveyReport, *, is_page: bool = False) -> Table:
    """All rows; a page's have their families, and why they failed."""
    mark: Mark | None = None if is_page else "code"
    columns: list[tuple[Column | str, Callable[[SurveyRow], Cell | Inline]]] = [
        ("name", lambda row: Span(row.name, mark))
    ]
    if is_page and any(row.family is not None for row in report.rows):
        columns.append(("family", lambda row: Span(row.family or NOTHING)))
    if len(report.variants) > 1:
        columns.append(("variant", lambda row: Span(row.variant, mark)))
    columns.append(("status", outcome_cell))
    has_cold = any(row.compile_cold_s is not None for row in report.rows)
    columns += [
        (Column(field.heading, rank=field.rank), partial(field_cell, name=name))
        for name, field in FIELDS.items()
        if field.heading and name != ("compile_s" if has_cold else "compile_cold_s")
    ]
    columns.append(
        (Column(FINDING, is_number=False, rank=6), partial(_finding_cell, has_error=is_page))
    )
    rows = ([cell(row) for _, cell in columns] for row in report.rows)
    most = 0 if len(report.rows) > _MAX_ROWS else None
    return Table((column for column, _ in columns), rows, "row", most, "All rows")


def field_cell(row: SurveyRow, name: str) -> Cell:
    """What is known of a row there."""
    value = getattr(row, name)
    if name == "speedup":
        return speedup_cell(row)
    if value is None or isinstance(value, bool):
        return {True: Cell("yes"), False: Cell("no", tone="bad"), None: Cell(NOTHING)}[value]
    text = FIELDS[name].text(value)
    return Cell(text) if isinstance(value, str) else Cell(text, value=value)


def _finding_cell(row: SurveyRow, *, has_error: bool) -> Cell:
    """The first finding and where it is: ``GD101 masking.py:41``."""
    found = (
        NOTHING if row.top is None else f"{row.top.code} {base_name(row.top.file)}:{row.top.line}"
    )
    if not has_error or (error := failure_text(row)) is None:
        return Cell(found)
    return Cell("" if row.top is None else found, shortened(error, _CELL_ERROR))


def status_cell(row: SurveyRow) -> Cell:
    """How it came out."""
    order = SURVEY_STATUSES.index(row.status)
    return Cell(
        STATUS_TEXTS[row.status], tone=_STATUS_TONES.get(row.status, "warning"), value=order
    )


def outcome_cell(row: SurveyRow) -> Cell:
    """How it came out; as its detail, what failed, and whether it is flaky or noisy."""
    flaky, noisy = "flaky" if row.is_flaky else None, "noisy" if row.is_noisy else None
    return replace(
        status_cell(row), detail=join_texts(", ", _stage_text(row.status, row.stage), flaky, noisy)
    )


def speedup_cell(row: SurveyRow) -> Cell:
    """How many times as fast as eager mode; as its detail, the interval."""
    if row.speedup is None:
        return Cell(NOTHING)
    if row.speedup_low is None or row.speedup_high is None:
        return Cell(factor_text(row.speedup), value=row.speedup)
    tone: Tone | None = (
        "good" if row.speedup_low > 1 and row.is_passed else "bad" if row.speedup_high < 1 else None
    )
    return Cell(
        factor_text(row.speedup),
        interval_text(row.speedup_low, row.speedup_high),
        tone,
        row.speedup,
    )


def short_text(row: SurveyRow) -> str:
    """A row in one line: ``bert default: ok, 2 breaks, 1.43x (1.40 to 1.46), 21 s``, and why it
    failed.
    """
    text = f"{row.name} {row.variant}: {', '.join(_parts(row))}"
    return text if (why := failure_text(row)) is None else f"{text}: {shortened(why, _SHORT_ERROR)}"


def _parts(row: SurveyRow) -> Iterator[str]:
    yield outcome_text(row.status, row.stage)
    for number, noun in ((row.break_sites, "break"), (row.recompiles, "recompile")):
        if number:
            yield counted(number, noun)
    if row.speedup is not None:
        yield cell_line(speedup_cell(row))
    if row.attempts > 1:
        yield counted(row.attempts, "attempt")
    yield seconds_of(row.seconds)
