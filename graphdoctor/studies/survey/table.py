"""The table of a survey's rows: its columns, as CSV, and as a Parquet file and back.

The columns are made of the fields of ``SurveyRow``. A column is added at the end, so that a file of
an older version still lines up; one that is renamed or removed is a new major ``SCHEMA_VERSION``.
A Parquet file is a survey's document in another form: the columns hold the rows whole, and the
file's metadata under ``graphdoctor`` has the rest as JSON. pyarrow is imported only when a file is
written or read.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import orjson

from graphdoctor.errors import GraphDoctorError, missing_package
from graphdoctor.facts.base import Fact, field_types
from graphdoctor.facts.reading import field_docstrings
from graphdoctor.facts.survey import SurveyCause, SurveyReport, SurveyRow
from graphdoctor.rules.gate.documents import parsed_json
from graphdoctor.views.printable import printable

ColumnType = Literal["string", "int64", "float64", "bool", "list<string>", "list<struct>"]
"""Arrow's name of the type. ``list<struct>`` is a list of causes, each with the columns of
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
        """Return the value of a row, or of a cause."""
        for name in self.path.split("."):
            value = None if value is None else getattr(value, name)
        return value


_PLAIN: dict[Any, ColumnType] = {str: "string", int: "int64", float: "float64", bool: "bool"}
_NAMES = {"is_noisy": "noisy"}
_FIRST = (
    "name target variant status stage error torch device calls break_sites skipped_frames"
    " recompiles graphs coverage compile_cold_s call_us eager_us speedup speedup_low speedup_high"
    " peak_memory_bytes correct top_code top_location top_fix seconds fingerprint family dtype"
    " batch library python host frames_over_limit compile_s compile_warm_s noisy noise exports"
    " export_error is_steady flaky attempts earlier started error_type traceback command report"
    " gaps causes export_code export_location export_causes"
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
    texts, columns = field_docstrings(fact), {}
    for field, kind in field_types(fact).items():
        parts, name = get_args(kind), _NAMES.get(field, field)
        text = " ".join(texts[field].split()).replace("``", "`").replace("None", "null")
        plain = (_PLAIN[part] for part in (kind, *parts) if part in _PLAIN)
        type_: ColumnType = next(plain, "string")
        if get_origin(kind) is tuple:
            type_ = "list<struct>" if SurveyCause in parts else "list<string>"
        columns[name] = Column(name, type_, text, field, field, NoneType in parts)
    return columns


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


# As CSV: what is null is an empty cell, and no text has a newline or a control character.

# Spreadsheets run cells that begin so, after spaces too; some of them read wide characters as the
# usual ones.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|\t")


def render_survey_csv(report: SurveyReport) -> str:
    """Return CSV of all rows: a text that could be a formula has a ``'`` before it, texts of a list
    have ``; `` between them.
    """
    columns = [column for column in COLUMNS if column.type != "list<struct>"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    writer.writerows([_csv_cell(column.read(row)) for column in columns] for row in report.rows)
    return text.getvalue()


def _csv_cell(value: object) -> str:
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


# As Parquet.

MAGIC = b"PAR1"
"""The first and last bytes of a Parquet file."""

KEY = b"graphdoctor"
"""The key of our metadata."""
_WRITE_AGAIN = "Name the file that graphdoctor survey wrote."


def write_parquet(report: SurveyReport) -> bytes:
    """Return the file's bytes, compressed with Zstandard."""
    pyarrow = _pyarrow("Writing")
    schema = _schema(pyarrow).with_metadata({KEY: orjson.dumps(report.replace(rows=()))})
    columns = [
        pyarrow.array([_cell(column, column.read(row)) for row in report.rows], type=field.type)
        for column, field in zip(COLUMNS, schema, strict=True)
    ]
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(
        pyarrow.Table.from_arrays(columns, schema=schema), sink, compression="zstd"
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_parquet(content: bytes, name: str) -> dict[str, Any]:
    """Return the survey's JSON document; nothing of it is checked yet."""
    if len(content) < 3 * len(MAGIC) or not content.endswith(MAGIC):
        raise GraphDoctorError(
            f"{name} is cut off: a Parquet file ends with {MAGIC.decode()}.",
            hint="Copy or download it again.",
        )
    pyarrow = _pyarrow("Reading")
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        metadata = (file.schema_arrow.metadata or {}).get(KEY)
        if metadata is None:
            raise GraphDoctorError(
                f"{name} isn't a survey: it has no metadata of graphdoctor.", hint=_WRITE_AGAIN
            )
        names = [column.name for column in COLUMNS if column.name in file.schema_arrow.names]
        rows = file.read(columns=names).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise GraphDoctorError(
            f"{name} is damaged: {str(error).splitlines()[0].rstrip('.')}.",
            hint="Copy or download it again.",
        ) from error
    document = parsed_json(metadata, f"graphdoctor's metadata in {name}", hint=_WRITE_AGAIN)
    if not isinstance(document, dict):
        raise GraphDoctorError(
            f"{name} isn't a survey: its metadata is of something else.", hint=_WRITE_AGAIN
        )
    return document | {"rows": [_row(row) for row in rows]}


def check_installed() -> None:
    """Find out before a survey runs whether its table can be written."""
    if importlib.util.find_spec("pyarrow") is None:
        raise missing_package("Writing Parquet", "pyarrow", "survey")


def _pyarrow(verb: str) -> Any:  # noqa: ANN401 - a module that may be missing
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise missing_package(f"{verb} Parquet", "pyarrow", "survey") from error
    return pyarrow


def _schema(pyarrow: Any) -> Any:  # noqa: ANN401 - as above
    types = {
        "string": pyarrow.string(),
        "int64": pyarrow.int64(),
        "float64": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "list<string>": pyarrow.list_(pyarrow.string()),
    }

    def field(column: Column) -> Any:  # noqa: ANN401 - as above
        metadata = {b"description": column.description.encode()}
        return pyarrow.field(
            column.name, types[column.type], nullable=column.is_nullable, metadata=metadata
        )

    types["list<struct>"] = pyarrow.list_(
        pyarrow.struct([field(column) for column in CAUSE_COLUMNS])
    )
    return pyarrow.schema([field(column) for column in COLUMNS])


def _cell(column: Column, value: Any) -> object:  # noqa: ANN401 - of the column's type
    if column.type == "list<struct>":
        return [{member.name: member.read(cause) for member in CAUSE_COLUMNS} for cause in value]
    return list(value) if column.type == "list<string>" else value


def _row(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row; what other columns imply is left out."""
    row = _fields(COLUMNS, cells)
    for column in COLUMNS:
        if column.type == "list<struct>":
            row[column.name] = [
                _fields(CAUSE_COLUMNS, cause) for cause in row.get(column.name) or ()
            ]
    return row


def _fields(columns: Sequence[Column], cells: Mapping[str, Any]) -> dict[str, Any]:
    return {
        column.field: cells[column.name]
        for column in columns
        if column.field is not None and column.name in cells
    }
