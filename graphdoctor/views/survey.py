"""A ``SurveyReport`` in, its view out: the answer by variant and family, what costs most over all
targets, what failed, then every row. A comparison of two surveys shows rows with the same words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from graphdoctor.facts.base import grouped
from graphdoctor.facts.survey import (
    SURVEY_STATUSES,
    GeometricMean,
    SharedCause,
    SurveyCause,
    SurveyReport,
    SurveyRow,
    SurveyStage,
    SurveyStatus,
)
from graphdoctor.views.measures import bytes_text, interval_text, seconds_text, speed_cell
from graphdoctor.views.next_step import after_survey
from graphdoctor.views.parts import (
    NOTHING,
    Block,
    Card,
    Cards,
    Cell,
    Code,
    Column,
    Heading,
    Note,
    Place,
    Row,
    Rows,
    Section,
    Source,
    Span,
    Table,
    TableRow,
    Tone,
    Verdict,
    View,
    cell_line,
)
from graphdoctor.views.printable import printable_lines
from graphdoctor.views.words import about_time, base_name, few_text
from graphdoctor.wording import (
    counted,
    duration,
    factor_text,
    join_texts,
    percent,
    shortened,
    without_middle,
)

STATUS_TEXTS: dict[SurveyStatus, str] = {
    **{status: status.replace("_", " ") for status in SURVEY_STATUSES},
    "wrong": "wrong results",
    "timeout": "timed out",
}
_STAGE_TEXTS: dict[SurveyStage, str] = {
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor",
    "backend": "backend",
    "call": "compiled call",
    "bench": "bench",
    "export": "export",
    "fix": "fixes",
}
"""Stages that a status doesn't say by itself."""
_BAD: tuple[SurveyStatus, ...] = ("wrong", "compile_failed", "crashed", "timeout", "out_of_memory")
_MARKS = {
    "flaky": "Attempts came out differently",
    "noisy": "The machine was busy, so small differences can't be seen",
}
_MAX_FAMILIES = 6
_MAX_FAILURES = 7
_MAX_NAMES = 8
_MAX_TARGETS = 60
_MAX_TITLES = 3
"""Versions or devices that a title names."""
_MAX_NOTES = 8
_MAX_ROWS = 4_000
_FEW_ROWS = 20
"""Rows that a terminal shows; of more than these it shows none."""
_MAX_ERROR = 400
_MAX_TRACEBACK = 2_000
_MAX_TRACEBACKS = 60


# Rows in words.


@dataclass(frozen=True)
class Measure:
    """A measured field of a row in words; one with a rank is a column of all rows."""

    label: str
    text: Callable[[Any], str | None] = "{:,.0f}".format
    rank: int = 0


MEASURES: dict[str, Measure] = {
    "break_sites": Measure("break sites", rank=3),
    "skipped_frames": Measure("skipped frames", rank=11),
    "recompiles": Measure("recompiles", rank=8),
    "frames_over_limit": Measure("functions over the recompile limit"),
    "coverage": Measure("coverage", percent, rank=5),
    "compile_cold_s": Measure("cold compile", seconds_text, rank=6),
    "compile_s": Measure("compile", seconds_text, rank=9),
    "call_us": Measure("call", duration),
    "speedup": Measure("speed-up", factor_text, rank=4),
    "peak_memory_bytes": Measure("peak memory", bytes_text, rank=9),
    "correct": Measure("correct results", rank=12),
    "exports": Measure("torch.export", rank=7),
    "is_steady": Measure("stops compiling when calls repeat"),
}
"""In the order of a table's columns."""


def measure_cell(row: SurveyRow, name: str) -> Cell:
    """Return the value of a field."""
    value = getattr(row, name)
    if value is None:
        return Cell(NOTHING)
    if isinstance(value, bool):
        return Cell("yes") if value else Cell("no", tone="bad")
    cell = Cell(MEASURES[name].text(value) or NOTHING, value=value)
    if name != "speedup" or row.speed is None:
        return cell
    low, _, high = row.speed
    tone: Tone | None = "good" if low > 1 and row.is_passed else "bad" if high < 1 else None
    return replace(cell, detail=interval_text(low, high), tone=tone)


def outcome_text(row: SurveyRow) -> str:
    """Return how a row came out, and where: ``compile failed (Inductor)``."""
    stage = None if row.is_passed or row.stage is None else _STAGE_TEXTS.get(row.stage)
    return STATUS_TEXTS[row.status] + (f" ({stage})" if stage else "")


def attempts_text(row: SurveyRow) -> str:
    """Return how the attempts came out: ``crashed, then ok``."""
    return ", then ".join(STATUS_TEXTS[status] for status in (*row.earlier, row.status))


def failure_text(row: SurveyRow) -> str | None:
    """Return why a row doesn't pass, in one line with the exception's type; None if it does, or
    that is unknown.
    """
    kind = None if row.error_type is None else row.error_type.rpartition(".")[2]
    if row.is_passed or row.error is None or not row.error.strip():
        return None if row.is_passed else kind
    text = shortened(row.error, _MAX_ERROR)
    return text if kind is None or kind in text else f"{kind}: {text}"


def row_name(row: SurveyRow, variant_count: int) -> str:
    """Return the name of a row, with its variant's where there are several."""
    return row.name if variant_count == 1 else f"{row.name} {row.variant}"


def seconds_of(seconds: float) -> str:
    """Return how long a piece takes: ``3.2 s``, ``21 s``, ``4 min``."""
    if seconds >= 90:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"


def short_text(row: SurveyRow) -> str:
    """Return a row in one line: ``bert default: ok, 2 breaks, 1.43x (1.40 to 1.46), 21 s``, and why
    it failed.
    """
    texts = [outcome_text(row)]
    texts += [counted(row.break_sites, "break")] if row.break_sites else []
    texts += [counted(row.recompiles, "recompile")] if row.recompiles else []
    texts += [] if row.speedup is None else [cell_line(measure_cell(row, "speedup"))]
    texts += [counted(row.attempts, "attempt")] if row.attempts > 1 else []
    text = f"{row.name} {row.variant}: {', '.join([*texts, seconds_of(row.seconds)])}"
    return text if (why := failure_text(row)) is None else f"{text}: {shortened(why, 120)}"


# The view.


def survey_view(report: SurveyReport, *, pages: str | None = None) -> View:
    """Return the survey as a tree; ``pages`` is as in ``RenderOptions``."""
    title, content = tuple(_title(report)), tuple(_parts(report, pages))
    return View(title, "survey", content, report.graphdoctor_version, after_survey(report))


def _title(report: SurveyReport) -> Iterator[str]:
    """Yield what was surveyed: name, size, torch, device, library, date."""
    yield report.name
    yield f"{len(report.rows):,} of {counted(report.planned, 'piece')}"
    yield counted(len(report.variants), "variant")
    if report.shard is not None:
        yield f"shard {report.shard}"
    for name in ("torch", "device", "library"):
        values = dict.fromkeys(getattr(row, name) for row in report.rows)
        if texts := [value for value in values if value is not None]:
            yield ("torch " if name == "torch" else "") + few_text(texts, _MAX_TITLES)
    yield report.started.partition("T")[0]


def _parts(report: SurveyReport, pages: str | None) -> Iterator[Block]:
    yield Verdict(*verdict(report))
    if (missing := report.planned - len(report.rows)) > 0:
        text = (
            f"Missing: {counted(missing, 'piece')}. The same command with --resume runs the rest."
        )
        yield Note(text, "warning")
    yield _group_table(report)
    summary = report.summary
    causes = _causes(summary.causes, summary.cause_count)
    yield Section("What costs most over all targets", causes, "Causes")
    exports = _causes(summary.export_causes, summary.export_cause_count, is_export=True)
    yield Section("What torch.export stops at", exports, "Exports")
    failures = list(failure_rows(report.rows))
    rows = Rows(failures, "error", _MAX_FAILURES)
    yield Section("What failed", rows, "Failures", len(failures))
    for mark, meaning in _MARKS.items():
        marked = [row for row in report.rows if getattr(row, f"is_{mark}")]
        if names := [row_name(row, len(report.variants)) for row in marked]:
            text = few_text(names, 4 * _MAX_NAMES)
            yield Note((f"{mark.capitalize()}: ", Span(text), f". {meaning}."), "warning")
    content: list[Block] = [_row_table(report, pages)]
    if (more := len(report.rows) - _MAX_ROWS) > 0:
        content.append(f"{counted(more, 'more row')} are in the JSON, CSV and Parquet documents.")
    yield Section("All rows", content, "Rows", len(report.rows))
    yield Section("How it was measured", _measured(report), "Made")


def verdict(report: SurveyReport) -> tuple[str, Tone]:
    """Return how many targets pass, in a sentence, and whether that is good news."""
    judged = [row for row in report.rows if row.is_judged]
    unjudged = [row for row in report.rows if not row.is_judged]
    if not report.rows:
        return "No piece has finished.", "bad"
    if not judged:
        return f"No target was judged: {_outcomes(unjudged)}.", "bad"
    passes = [row.is_passed for row in report.rows]
    # What nobody knows is no good news.
    is_good = all(passes) and len(passes) == report.planned
    tone: Tone = "good" if is_good else "warning" if any(passes) else "bad"
    variants = len(report.variants)
    targets = grouped((row.name, row.is_passed) for row in judged).values()
    passed = sum(sum(outcomes) == variants for outcomes in targets)
    where = " under every variant" if variants > 1 else ""
    whole = [row.is_whole for row in judged if row.is_whole is not None]
    count = counted(len(targets), "target")
    text = f"{passed:,} of {count} {'passes' if len(targets) == 1 else 'pass'}{where}"
    if variants == 1 and whole:
        text += f", {sum(whole):,} of {len(whole):,} without breaks"
    means = [
        f"{group.variant} {factor_text(mean.ratio)} ({interval_text(mean.low, mean.high)})"
        for group in report.summary.groups
        if group.family is None and (mean := group.speedup_shared)
    ]
    return join_texts(
        " ",
        f"{text}.",
        f"Not judged: {_outcomes(unjudged)}." if unjudged else None,
        f"On targets that all variants share: {', '.join(means)}." if means else None,
    ), tone


def _outcomes(rows: Iterable[SurveyRow]) -> str:
    texts = Counter(map(outcome_text, rows))
    return ", ".join(f"{count:,} {text}" for text, count in texts.most_common())


def _group_table(report: SurveyReport) -> Table:
    """Return a row for each variant, then for each of its families if there are several; columns
    that are unknown for all are left out.
    """
    families = {group.family for group in report.summary.groups} - {None}
    groups = [group for group in report.summary.groups if group.family is None or len(families) > 1]
    rows = []
    for group in sorted(groups, key=lambda group: (group.family is not None, -group.pieces)):
        members = [
            row
            for row in report.rows
            if row.variant == group.variant and group.family in (None, row.family)
        ]
        known = sum(row.is_whole is not None for row in members)
        tried = [row.exports for row in members if row.exports is not None]
        tone: Tone = "warning" if group.passed else "bad"
        passed = Cell("none judged")
        if group.pass_rate is not None:
            text = f"{group.passed:,} of {group.judged:,}"
            tone = "good" if group.passed == group.judged else tone
            passed = Cell(text, percent(group.pass_rate), tone)
        cold = group.compile_cold_s
        rows.append(
            (
                Span(group.variant),
                Span(group.family or ""),
                passed,
                f"{group.whole:,} of {known:,}" if known else NOTHING,
                _mean_cell(group.speedup),
                _mean_cell(group.speedup_shared),
                NOTHING if group.speedup is None else f"{group.faster:,} / {group.slower:,}",
                NOTHING if cold is None else seconds_text(cold),
                f"{sum(tried):,} of {len(tried):,}" if tried else NOTHING,
            )
        )
    mean = "Geometric mean with its 95% interval, over the targets that "
    columns = (
        *("variant", Column("family", is_number=False), "#passed", "#no breaks"),
        Column("speed-up", meaning=f"{mean}pass under this variant: don't compare variants by it."),
        Column("shared targets", rank=4, meaning=f"{mean}pass under every variant."),
        Column("faster / slower", rank=3),
        Column("cold compile", rank=1),
        Column("exports", rank=2),
    )
    most = (1 + _MAX_FAMILIES) * len(report.variants)
    return Table(columns, rows if report.rows else (), "row", most, "Figures of each variant")


def _mean_cell(mean: GeometricMean | None) -> Cell:
    if mean is None:
        return Cell(NOTHING)
    return speed_cell(mean, "good" if mean.low > 1 else "bad" if mean.high < 1 else None)


def _causes(
    causes: Sequence[SharedCause], count: int, *, is_export: bool = False
) -> Iterator[Block]:
    from graphdoctor.rules.catalog import PAGES

    cards = []
    for number, cause in enumerate(causes, start=1):
        # Of several functions what their rule finds, since the message of one speaks of its own
        # line. Those that an export stops at say the same, in whichever function.
        page = PAGES.get(cause.code) if cause.functions > 1 and not is_export else None
        title = cause.message if page is None else page.title().rstrip(".")
        message = title if page is None else title[:1].lower() + title[1:]
        anchor = f"{'export' if is_export else 'cause'}-{number}"
        cards.append(cause_card(cause, message, anchor))
    yield Cards(tuple(cards))
    if (more := count - len(causes)) > 0:
        yield Note(f"{counted(more, 'more cause')} of less weight.", "dim")


def cause_card(cause: SharedCause, message: str, anchor: str) -> Card:
    """Return a card of a cause, which says in how many lines or functions it is."""
    where = f"{counted(len(cause.lines), 'line')} of {cause.function}"
    if cause.functions > 1:
        where = counted(cause.functions, "function")
    head = f"{counted(len(cause.targets), 'target')}, {where}: {message}"
    rows = []
    if len(cause.places) > 1:
        rows.append(Row("places", Span(few_text(cause.places, _MAX_TARGETS))))
    if costs := _costs(cause):
        rows.append(Row("costs", costs))
    if cause.fix is not None and cause.fix_verified:
        works_on = few_text(cause.fix_verified, 1)
        rows.append(Row("fix", Note(f"{cause.fix} (works on {works_on})", "good")))
    elif cause.fix is not None:
        rows.append(Row("try", cause.fix))
    rows.append(Row("targets", Span(few_text(cause.targets, _MAX_TARGETS)), show="long"))
    source = (Source(cause.lines[0], cause.text),) if cause.text else ()
    return Card(
        (Heading(cause.code, head, cause.severity, anchor),),
        Place(cause.file, cause.lines[0]),
        cause.function,
        cause.package,
        (*source, Rows(rows)),
    )


def _costs(cause: SurveyCause) -> str:
    """Return what it costs, as far as that was measured; empty if nothing is known."""
    eager = counted(cause.eager_frames, "function") if cause.eager_frames else None
    return join_texts(
        ", ",
        eager and f"{eager} left to eager mode",
        None if cause.call_us is None else f"{duration(cause.call_us)} of calls",
    )


def failure_rows(rows: Iterable[SurveyRow]) -> Iterator[Row]:
    """Yield what didn't pass by error, which numbers and the target's name don't tell apart: first
    what says something about torch.compile, then the errors of most rows.
    """
    failed = [row for row in rows if not row.is_passed]
    errors = grouped(((outcome_text(row), _pattern(row)), row) for row in failed).values()
    ordered = sorted(errors, key=lambda alike: (not alike[0].is_judged, -len(alike)))
    for number, alike in enumerate(ordered):
        first = alike[0]
        tone: Tone = "bad" if first.status in _BAD else "warning"
        which = few_text([f"{row.name} {row.variant}" for row in alike], _MAX_NAMES)
        is_same = len({failure_text(row) for row in alike}) == 1
        message = (failure_text(first) if is_same else _pattern(first)) or "no message"
        body: list[Block] = [Note(Span(message), tone), Note(Span(which), "dim")]
        if first.command is not None:
            body.append(Code(first.command, "shell", show="long"))
        if first.traceback is not None and number < _MAX_TRACEBACKS:
            text = without_middle(first.traceback, _MAX_TRACEBACK)
            body.append(Code(text, "text", show="long"))
        label = outcome_text(first)
        yield Row(f"{label} ×{len(alike)}" if len(alike) > 1 else label, tuple(body))


def _pattern(row: SurveyRow) -> str:
    name = re.escape(re.split(r"[/:]", row.name)[-1])
    return re.sub(rf"0x[0-9a-f]+|\d+|\b{name}", "…", failure_text(row) or "", flags=re.IGNORECASE)


def _row_table(report: SurveyReport, pages: str | None) -> Table:
    """Return a table of all rows, whose names lead to their own pages."""
    names = [name for name, measure in MEASURES.items() if measure.rank]
    rows: list[TableRow] = []
    for row in report.rows[:_MAX_ROWS]:
        marks = [mark for mark in _MARKS if getattr(row, f"is_{mark}")]
        detail = ", ".join(marks)
        tone: Tone = "good" if row.is_passed else "bad" if row.status in _BAD else "warning"
        finding = (
            "" if row.top is None else f"{row.top.code} {base_name(row.top.file)}:{row.top.line}"
        )
        rows.append(
            (
                Span(row.name, "code", link=page_address(row.report, pages)),
                Span(row.family or "", "code"),
                Span(row.variant if len(report.variants) > 1 else "", "code"),
                Cell(outcome_text(row), detail, tone, SURVEY_STATUSES.index(row.status)),
                *(measure_cell(row, name) for name in names),
                finding or NOTHING,
            )
        )
    columns: tuple[Column | str, ...] = (
        *("name", Column("family", is_number=False, rank=13), "variant", "status"),
        *(Column(MEASURES[name].label, rank=MEASURES[name].rank) for name in names),
        Column("first finding", is_number=False, rank=6),
    )
    most = 0 if len(report.rows) > _FEW_ROWS else None
    return Table(columns, rows, "row", most, "All rows")


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


def _measured(report: SurveyReport) -> Iterator[Block]:
    settings = {
        variant.name: {**variant.settings, "python": variant.python} for variant in report.variants
    }
    rows = []
    for name, values in {**settings, "options": report.options}.items():
        text = ", ".join(f"{key}={value}" for key, value in values.items() if value is not None)
        rows.append(Row(Span(name), Span(text or "nothing of its own"), show="long"))
    rows += [Row("note", Note(note, "dim")) for note in report.notes]
    yield Rows(rows, "note", _MAX_NOTES)
    took = None
    if report.seconds is not None:
        on = "" if report.engine is None else f" on {report.engine}"
        took = f"Took {about_time(report.seconds)}{on}."
    kept = f"{counted(report.kept, 'row')} kept from an earlier run." if report.kept else None
    if text := join_texts(" ", took, kept):
        yield Note(text, "dim")
