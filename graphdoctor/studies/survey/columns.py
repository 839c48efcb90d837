"""The columns of a survey's table, made of the fields of its rows: Parquet, CSV and the published
description use them.

Comes in: a ``SurveyRow``. Goes out: its value in each column. A column is added at the end, so that
a file of an older version still lines up; one that is renamed or removed is a new major
``SCHEMA_VERSION``.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from graphdoctor.facts.base import Fact, field_types
from graphdoctor.facts.reading import field_docstrings
from graphdoctor.facts.survey import SurveyCause, SurveyReport, SurveyRow
from graphdoctor.views.printable import printable

ColumnType = Literal["string", "int64", "float64", "bool", "list<string>", "list<struct>"]
"""As Arrow calls it. ``list<struct>`` is a list of causes, each with the columns of
``CAUSE_COLUMNS``."""


@dataclass(frozen=True)
class Column:
    """One column of the table, or one member of a cause.

    Args:
        path: Attributes of a row, or a cause, such as ``top.code``; the value is None where one of
            them is.
        field: The field of the model that it holds as it is; None if it is derived from others.
    """

    name: str
    type: ColumnType
    description: str
    path: str
    field: str | None
    is_nullable: bool

    def read(self, value: object) -> object:
        """What a row, or a cause, has there."""
        for each in self.path.split("."):
            value = None if value is None else getattr(value, each)
        return value


_PLAIN: dict[Any, ColumnType] = {str: "string", int: "int64", float: "float64", bool: "bool"}
_NAMES = {"is_noisy": "noisy"}
_FIRST = (
    "name target variant status stage error torch device calls break_sites skipped_frames recompiles graphs coverage "
    "compile_cold_s call_us eager_us speedup speedup_low speedup_high peak_memory_bytes correct top_code top_location "
    "top_fix seconds fingerprint family dtype batch library python host frames_over_limit compile_s compile_warm_s "
    "noisy noise exports export_error is_steady flaky attempts earlier started error_type traceback command report "
    "gaps causes export_code export_location export_causes"
)
"""The columns in the order of their versions; others follow."""
_DERIVED = (
    ("top_code", "Rule code of the first finding; null if there is none.", "top.code"),
    ("top_location", "File and line of the first finding; null if there is none.", "top.location"),
    ("top_fix", "Fix of the first finding, if a trial verified it; null otherwise.", "top_fix"),
    ("export_code", "Rule of what torch.export stops at; null if unknown.", "export_top.code"),
    ("export_location", "File and line of that.", "export_top.location"),
)
"""Columns of strings that others imply: name, description, path."""


def _columns(fact: type[Fact]) -> dict[str, Column]:
    texts, found = field_docstrings(fact), {}
    for field, kind in field_types(fact).items():
        name = _NAMES.get(field, field)
        text = " ".join(texts[field].split()).replace("``", "`").replace("None", "null")
        found[name] = Column(name, _type(kind), text, field, field, NoneType in get_args(kind))
    return found


def _type(kind: Any) -> ColumnType:  # noqa: ANN401 - an annotation
    if get_origin(kind) is tuple:
        return "list<struct>" if SurveyCause in get_args(kind) else "list<string>"
    return next((_PLAIN[each] for each in (kind, *get_args(kind)) if each in _PLAIN), "string")


CAUSE_COLUMNS = tuple(_columns(SurveyCause).values())
"""The members of a cause."""

_BY_NAME = {
    **_columns(SurveyRow),
    **{name: Column(name, "string", text, path, None, True) for name, text, path in _DERIVED},
    "flaky": Column(
        "flaky", "bool", "Whether its attempts came out differently.", "is_flaky", None, False
    ),
}
COLUMNS = tuple(_BY_NAME[name] for name in dict.fromkeys((*_FIRST.split(), *_BY_NAME)))
"""The columns of the table, in order."""


def flat_columns() -> tuple[Column, ...]:
    """The columns that a table of plain cells can hold, such as CSV: all but lists of causes."""
    return tuple(column for column in COLUMNS if column.type != "list<struct>")


# As CSV: what is null is an empty cell, and no text has a newline or a control character.

# Spreadsheets run cells that begin so, after spaces too; some of them read wide characters as the
# usual ones.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|\t")


def render_survey_csv(report: SurveyReport) -> str:
    """CSV of all rows: a text that could be a formula has a ``'`` before it, texts of a list ``; ``
    between them.
    """
    columns = flat_columns()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows([_cell(column.read(row)) for column in columns] for row in report.rows)
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    text = printable(str(value))
    return f"'{text}" if _FORMULA.match(text) else text
