"""Words, cells and cards that the views of surveys share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphdoctor.facts.base import grouped
from graphdoctor.facts.survey import (
    SURVEY_STATUSES,
    SharedCause,
    SurveyCause,
    SurveyReport,
    SurveyRow,
    SurveyStage,
    SurveyStatus,
)
from graphdoctor.views.measures import interval_text, seconds_text
from graphdoctor.views.parts import (
    NOTHING,
    Card,
    Cell,
    Column,
    Heading,
    Mark,
    Note,
    Place,
    Row,
    Rows,
    Source,
    Span,
    Table,
    TableRow,
    Tone,
    cell_line,
)
from graphdoctor.views.words import base_name, few_text
from graphdoctor.wording import (
    bytes_text,
    counted,
    duration,
    factor_text,
    join_texts,
    percent,
    shortened,
)

STATUS_TEXTS: dict[SurveyStatus, str] = {
    **{status: status.replace("_", " ") for status in SURVEY_STATUSES},
    "wrong": "wrong results",
    "timeout": "timed out",
}
_STAGE_TEXTS: dict[SurveyStage, str] = {
    "prepare": "preparing",
    "load": "loading",
    "eager": "eager mode",
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor",
    "call": "compiled call",
    "fix": "fixes",
}
"""Stages that have another name for people."""
_IMPLIED: dict[SurveyStatus, tuple[SurveyStage, ...]] = {
    "eager_failed": ("eager",),
    "no_inputs": ("prepare", "load"),
    "load_failed": ("load",),
}
"""Stages that a status says by itself."""
_BAD: tuple[SurveyStatus, ...] = ("wrong", "compile_failed", "crashed", "timeout", "out_of_memory")
NOISY = "The machine was busy, so small differences can't be seen"
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+|0x[0-9a-fA-F]+|\d*\.?\d+e[+-]?\d+")
_MIN_NAME = 3
"""Characters of a name that is looked for within words: shorter ones are there by chance."""
_MAX_ERROR = 2_000
_MAX_PLACES = 60
_MAX_ROWS = 20
"""Rows that a terminal shows; of more than these it shows none."""


# Outcomes.


def _stage_text(row: SurveyRow) -> str | None:
    """Return what failed; None if nothing did, or the status says it."""
    if (stage := row.stage) is None or stage in _IMPLIED.get(row.status, ()):
        return None
    return _STAGE_TEXTS.get(stage, stage)


def outcome_text(row: SurveyRow) -> str:
    """Return how a row came out, and where: ``compile failed (Inductor)``."""
    stage = None if row.is_passed else _stage_text(row)
    return STATUS_TEXTS[row.status] + (f" ({stage})" if stage else "")


def flaky_text(row: SurveyRow) -> str:
    """Return how the attempts came out: ``crashed, then ok``."""
    return ", then ".join(STATUS_TEXTS[status] for status in (*row.earlier, row.status))


def outcome_cell(row: SurveyRow) -> Cell:
    """Return the status; as its detail, what failed, and whether it is flaky or noisy."""
    detail = join_texts(
        ", ", _stage_text(row), *(mark for mark in ("flaky", "noisy") if getattr(row, f"is_{mark}"))
    )
    tone: Tone = "good" if row.is_passed else "bad" if row.status in _BAD else "warning"
    return Cell(STATUS_TEXTS[row.status], detail, tone, SURVEY_STATUSES.index(row.status))


def failure_text(row: SurveyRow) -> str | None:
    """Return why a row doesn't pass, in one line with the exception's type; None if it does, or
    that is unknown.
    """
    kind = None if row.error_type is None else row.error_type.rpartition(".")[2]
    if row.is_passed or row.error is None or not row.error.strip():
        return None if row.is_passed else kind
    text = shortened(row.error, _MAX_ERROR)
    return text if kind is None or kind in text else f"{kind}: {text}"


@dataclass(frozen=True)
class Failure:
    """Rows with the same error, in which ``…`` stands for numbers and the target's name."""

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
    """Group what didn't pass by error: first what says something about torch.compile, then the
    errors of most targets.
    """
    groups = grouped(
        ((row.status, row.stage, row.error_type, _pattern(row)), row)
        for row in rows
        if not row.is_passed
    )
    merged = []
    for (*_, pattern), group in groups.items():
        errors = {failure_text(row) for row in group}
        merged.append(Failure(errors.pop() if len(errors) == 1 else pattern, tuple(group)))
    return sorted(
        merged, key=lambda failure: (not failure.rows[0].is_judged, -len(failure.targets))
    )


def _pattern(row: SurveyRow) -> str | None:
    """Return the error with ``…`` for numbers and for words that hold the target's name."""
    if (error := failure_text(row)) is None:
        return None
    name = re.split(r"[/:]", row.name)[-1]
    letters = re.sub(r"[\W_]", "", name).casefold()

    def masked(word: re.Match[str]) -> str:
        is_within = len(letters) >= _MIN_NAME and letters in word[0].replace("_", "").casefold()
        return "…" if is_within or word[0] == name or _NUMBER.fullmatch(word[0]) else word[0]

    whole = rf"(?<!\w){re.escape(name)}(?!\w)"
    return _WORD.sub(masked, re.sub(whole, "…", error) if name else error)


def failure_table(
    failed: Sequence[Failure],
    which: Callable[[Failure], Cell],
    *,
    longest: int,
    most: int | None = None,
) -> Table:
    """Return a row for each error; ``which`` says whose it is."""
    rows = (
        (
            Cell(outcome_text(failure.rows[0]), tone=outcome_cell(failure.rows[0]).tone),
            f"{len(failure.targets):,}",
            Span(shortened(failure.error or "no message", longest)),
            which(failure),
        )
        for failure in failed
    )
    columns = ("#outcome", "#targets", "error", "which")
    return Table(columns, rows, "error", most, "By error")


# Causes.


def cause_card(cause: SharedCause, message: str, anchor: str, targets: Row) -> Card:
    """Return a card of a cause, which says in how many lines or functions it is."""
    where = f"{counted(len(cause.lines), 'line')} of {cause.function}"
    if cause.functions > 1:
        where = counted(cause.functions, "function")
    head = f"{counted(len(cause.targets), 'target')}, {where}: {message}"
    rows = []
    if len(cause.places) > 1:
        rows.append(Row("places", Span(few_text(cause.places, _MAX_PLACES))))
    if costs := cause_costs(cause):
        rows.append(Row("costs", costs))
    if cause.fix is not None and cause.fix_verified:
        first, *others = cause.fix_verified
        where = f"{len(cause.fix_verified):,} targets" if others else first
        rows.append(Row("fix", Note(f"{cause.fix} (works on {where})", "good")))
    elif cause.fix is not None:
        rows.append(Row("try", cause.fix))
    source = (Source(cause.lines[0], cause.text),) if cause.text else ()
    return Card(
        (Heading(cause.code, head, cause.severity, anchor),),
        Place(cause.file, cause.lines[0]),
        cause.function,
        cause.package,
        (*source, Rows((*rows, targets))),
    )


def cause_costs(cause: SurveyCause) -> str:
    """Return what it costs, as far as that was measured; empty if nothing is known."""
    eager = counted(cause.eager_frames, "function") if cause.eager_frames else None
    return join_texts(
        ", ",
        eager and f"{eager} left to eager mode",
        None if cause.call_us is None else f"{duration(cause.call_us)} of calls",
    )


# Rows.

_COUNT = "{:,.0f}".format


@dataclass(frozen=True)
class RowField:
    """A field of a row in words; with a heading, the table of all rows has a column of it."""

    label: str
    text: Callable[[Any], str] = str
    heading: str = ""
    rank: int = 0

    @property
    def is_counted(self) -> bool:
        """True if every run that came to its end has it."""
        return self.text in (_COUNT, percent)


def seconds_of(seconds: float) -> str:
    """Return how long a piece takes: ``3.2 s``, ``21 s``, ``4 min``."""
    if seconds >= 90:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"


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


def row_name(row: SurveyRow, variant_count: int) -> str:
    """Return the name of a row, with its variant's where there are several."""
    return row.name if variant_count == 1 else f"{row.name} {row.variant}"


def row_table(report: SurveyReport, *, is_page: bool = False) -> Table:
    """Return a table of all rows; a page's has their families, and why they failed."""
    has_cold = any(row.compile_cold_s is not None for row in report.rows)
    measures = [
        name
        for name, field in FIELDS.items()
        if field.heading and name != ("compile_s" if has_cold else "compile_cold_s")
    ]
    mark: Mark | None = None if is_page else "code"
    rows: list[TableRow] = []
    for row in report.rows:
        top, error = row.top, failure_text(row) if is_page else None
        finding = "" if top is None else f"{top.code} {base_name(top.file)}:{top.line}"
        rows.append(
            (
                Span(row.name, mark),
                Span((row.family or "") if is_page else ""),
                Span(row.variant if len(report.variants) > 1 else "", mark),
                outcome_cell(row),
                *(field_cell(row, name) for name in measures),
                Cell(finding, shortened(error, 90)) if error else Cell(finding or NOTHING),
            )
        )
    columns: tuple[Column | str, ...] = (
        *("name", "family", "variant", "status"),
        *(Column(FIELDS[name].heading, rank=FIELDS[name].rank) for name in measures),
        Column("first finding", is_number=False, rank=6),
    )
    most = 0 if len(report.rows) > _MAX_ROWS else None
    return Table(columns, rows, "row", most, "All rows")


def field_cell(row: SurveyRow, name: str) -> Cell:
    """Return the value of a field."""
    value = getattr(row, name)
    if value is None or isinstance(value, bool):
        return {True: Cell("yes"), False: Cell("no", tone="bad"), None: Cell(NOTHING)}[value]
    cell = Cell(FIELDS[name].text(value), value=None if isinstance(value, str) else value)
    low, high = row.speedup_low, row.speedup_high
    if name != "speedup" or low is None or high is None:
        return cell
    tone: Tone | None = "good" if low > 1 and row.is_passed else "bad" if high < 1 else None
    return replace(cell, detail=interval_text(low, high), tone=tone)


def short_text(row: SurveyRow) -> str:
    """Return a row in one line: ``bert default: ok, 2 breaks, 1.43x (1.40 to 1.46), 21 s``, and why
    it failed.
    """
    texts = [outcome_text(row)]
    texts += [counted(row.break_sites, "break")] if row.break_sites else []
    texts += [counted(row.recompiles, "recompile")] if row.recompiles else []
    texts += [] if row.speedup is None else [cell_line(field_cell(row, "speedup"))]
    texts += [counted(row.attempts, "attempt")] if row.attempts > 1 else []
    text = f"{row.name} {row.variant}: {', '.join([*texts, seconds_of(row.seconds)])}"
    return text if (why := failure_text(row)) is None else f"{text}: {shortened(why, 120)}"
