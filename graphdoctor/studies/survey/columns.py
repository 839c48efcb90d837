"""The columns of a survey's table, declared once: Parquet, CSV and the published description are made from them.

Comes in: a ``SurveyRow``. Goes out: its value in each column. A column is added at the end, so that a file of an older
version still lines up; one that is renamed or removed is a new major ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from graphdoctor.facts.survey import SurveyCause, SurveyRow

ColumnType = Literal["string", "int64", "float64", "bool", "list<string>", "list<struct>"]
"""As Arrow calls it. ``list<struct>`` is a list of causes, each with the columns of ``CAUSE_COLUMNS``."""


@dataclass(frozen=True)
class Column:
    """One column of the table, or one member of a cause.

    Args:
        read: Reads the value off a row, or a cause; None for none.
        field: The field of the model that it holds as it is; None if it is derived from others.
        is_nullable: It can be null, which is unknown or not measured unless the description says otherwise.
    """

    name: str
    type: ColumnType
    description: str
    read: Callable[[SurveyRow | SurveyCause], object]
    field: str | None
    is_nullable: bool


def _of(type: ColumnType, name: str, description: str, *, field: str | None = None, is_nullable: bool = True) -> Column:
    held = field or name
    return Column(name, type, description, attrgetter(held), held, is_nullable)


def _always(type: ColumnType, name: str, description: str, *, field: str | None = None) -> Column:
    return _of(type, name, description, field=field, is_nullable=False)


def _derived(type: ColumnType, name: str, description: str, path: str, *, is_nullable: bool = True) -> Column:
    """A column that other columns imply.

    ``path``: attributes, such as ``top.code``; the value is None where one of them is.
    """
    names = path.split(".")

    def read(value: object) -> object:
        for each in names:
            value = None if value is None else getattr(value, each)
        return value

    return Column(name, type, description, read, None, is_nullable)


CAUSE_COLUMNS: tuple[Column, ...] = (
    _always("string", "code", "Code of the rule."),
    _always("string", "rule", "Name of the rule."),
    _always("string", "severity", "`error`, `warning` or `info`."),
    _always("string", "message", "One sentence."),
    _always("string", "file", "Path, relative to the survey's folder; of an installed package, from the package on."),
    _always("int64", "line", "1-based line."),
    _always("string", "function", "Qualified name of the function."),
    _of("string", "text", "Text of the line, without indentation."),
    _of("string", "package", "Package that owns the file; null for the user's own code."),
    _always("int64", "count", "How often it happened."),
    _of("float64", "call_us", "Microseconds that it costs each steady call."),
    _of("float64", "compile_s", "Seconds of compiling that it costs."),
    _always("int64", "eager_frames", "Functions that run eagerly because of it, in whole or for the rest."),
    _of("string", "fix", "Title of its first fix; of a verified one if there is one. Null if there is none."),
    _of("string", "fix_verdict", "What a trial of that fix found; null if there is no fix."),
    _of("string", "diff", "The verified fix as a diff; null if there is none."),
    _always("string", "fingerprint", "Stable identity of the finding."),
)
"""The members of a cause."""

COLUMNS: tuple[Column, ...] = (
    _always("string", "name", "What the target is called; unique among the targets of a survey."),
    _always("string", "target", "The target, as `graphdoctor explain` takes it."),
    _always("string", "variant", "Name of the variant: the settings that it was compiled with."),
    _always("string", "status", "How it came out: `ok`, or what went wrong."),
    _of("string", "stage", "What was going on when it failed; null where nothing did."),
    _of("string", "error", "Why it failed; null where nothing did."),
    _of("string", "torch", "Version of torch, with its build tag; null if it was never imported."),
    _of("string", "device", "`cpu`, or the name of the CUDA device."),
    _of("int64", "calls", "Compiled calls that were made, without those that measure."),
    _of("int64", "break_sites", "Distinct lines that break a graph."),
    _of("int64", "skipped_frames", "Distinct functions that torch skipped."),
    _of("int64", "recompiles", "Compiles of a function that was compiled already."),
    _of("int64", "graphs", "Graphs handed to the backend."),
    _of("float64", "coverage", "Share, 0 to 1, of a steady call's tensor operations that ran in compiled graphs."),
    _of("float64", "compile_cold_s", "Seconds that compiling adds with an empty cache; null without a bench."),
    _of("float64", "call_us", "Median microseconds of a steady compiled call; null without a bench."),
    _of("float64", "eager_us", "Median microseconds of the same call in eager mode; null without a bench."),
    _of("float64", "speedup", "How many times as fast as eager mode; null without a bench."),
    _of("float64", "speedup_low", "Lower end of the speed-up's 95% confidence interval."),
    _of("float64", "speedup_high", "Upper end of the speed-up's 95% confidence interval."),
    _of("int64", "peak_memory_bytes", "Most memory during steady calls; without a bench, of the whole process."),
    _of("bool", "correct", "Whether results are those of eager mode, but for rounding; null if not compared."),
    _derived("string", "top_code", "Rule code of the first finding; null if there is none.", "top.code"),
    _derived("string", "top_location", "File and line of the first finding; null if there is none.", "top.location"),
    _derived("string", "top_fix", "Fix of the first finding, if a trial verified it; null otherwise.", "top_fix"),
    _always("float64", "seconds", "Wall time of the piece, all attempts."),
    _always("string", "fingerprint", "Digest of what the row depends on: target, files, variant, torch, options."),
    _of("string", "family", "Group that the target belongs to; null for none."),
    _of("string", "dtype", "The dtype that was asked for; null for the target's own."),
    _of("int64", "batch", "The batch size that was asked for; null for that of the target's own calls."),
    _of("string", "library", "Name and version of the library that a catalog's target comes from."),
    _of("string", "python", "Version of Python."),
    _of("string", "host", "Name of the machine."),
    _of("int64", "frames_over_limit", "Distinct functions that hit the recompile limit."),
    _of("float64", "compile_s", "Seconds of compiling in the recorded run; with a bench, under the backend `eager`."),
    _of("float64", "compile_warm_s", "As compile_cold_s, in a second process that finds the first one's cache."),
    _of("bool", "noisy", "Whether the machine was too busy to see small differences.", field="is_noisy"),
    _of("float64", "noise", "Eager mode timed against itself in another process; 1 on a quiet machine."),
    _of("bool", "exports", "Whether torch.export exports it, with the same results; null if it wasn't tried."),
    _of("string", "export_error", "Why it doesn't export; null where it does or wasn't tried."),
    _of("bool", "is_steady", "Whether it stops compiling when its calls are repeated."),
    _derived("bool", "flaky", "Whether its attempts came out differently.", "is_flaky", is_nullable=False),
    _always("int64", "attempts", "How often it was run."),
    _always("list<string>", "earlier", "Statuses of the attempts before the last one."),
    _of("string", "started", "When the last attempt began, in UTC, such as `2026-11-23T01:20:00Z`."),
    _of("string", "error_type", "Qualified type of the exception; null if there was none."),
    _of("string", "traceback", "Traceback of the exception, cut in the middle if it is long."),
    _of("string", "command", "Command line that explains this piece alone; null if there is none."),
    _of("string", "report", "Path of its own page, relative to the survey's folder; null if there is none."),
    _always("list<string>", "gaps", "What couldn't be measured, in sentences."),
    _always("list<struct>", "causes", "Its findings, the first one first."),
    _derived("string", "export_code", "Rule of what torch.export stops at; null if unknown.", "export_top.code"),
    _derived("string", "export_location", "File and line of that.", "export_top.location"),
    _always("list<struct>", "export_causes", "What torch.export stops at, strict or not."),
)
"""The columns of the table, in order."""


def flat_columns() -> tuple[Column, ...]:
    """The columns that a table of plain cells can hold, such as CSV: all but lists of causes."""
    return tuple(column for column in COLUMNS if column.type != "list<struct>")


def cells(row: SurveyRow) -> Iterator[tuple[Column, object]]:
    """Each column with what the row has in it."""
    return ((column, column.read(row)) for column in COLUMNS)
