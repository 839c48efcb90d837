"""A survey as a Parquet file, and back. The only module that imports pyarrow, and only when it is
called.

Comes in: a ``SurveyReport``, or the bytes of a file. Goes out: bytes, or the survey's JSON document
as plain values. The columns hold the rows whole. What belongs to the survey and not to a row is in
the file's metadata under ``graphdoctor``: JSON with the schema version, so that a file is a
survey's document in another form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.rules.gate.documents import parsed_json
from graphdoctor.studies.survey.columns import CAUSE_COLUMNS, COLUMNS, Column

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SurveyReport

MAGIC = b"PAR1"
"""How a Parquet file begins and ends."""

KEY = b"graphdoctor"
"""What our metadata is under."""
_DESCRIPTION = b"description"
_WRITE_AGAIN = "Name the file that graphdoctor survey wrote."


def write_parquet(report: SurveyReport) -> bytes:
    """The file's bytes, compressed with Zstandard."""
    pyarrow = _pyarrow("Writing")
    schema = _schema(pyarrow).with_metadata({KEY: orjson.dumps(replace(report, rows=()))})
    columns = [
        _array(pyarrow, field, [_cell(column, column.read(row)) for row in report.rows])
        for column, field in zip(COLUMNS, schema, strict=True)
    ]
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(
        pyarrow.Table.from_arrays(columns, schema=schema), sink, compression="zstd"
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_parquet(content: bytes, name: str) -> dict[str, Any]:
    """The survey's JSON document; nothing of it is checked yet."""
    if len(content) < 3 * len(MAGIC) or not content.endswith(MAGIC):
        raise GraphDoctorError(
            f"{name} is cut off: a Parquet file ends with {MAGIC.decode()}.",
            hint="Copy or download it again.",
        )
    pyarrow = _pyarrow("Reading")
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        own = (file.schema_arrow.metadata or {}).get(KEY)
        if own is None:
            raise GraphDoctorError(
                f"{name} isn't a survey: it has no metadata of graphdoctor.", hint=_WRITE_AGAIN
            )
        known = {column.name for column in COLUMNS} & set(file.schema_arrow.names)
        rows = file.read(
            columns=[column.name for column in COLUMNS if column.name in known]
        ).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise GraphDoctorError(
            f"{name} is damaged: {str(error).splitlines()[0].rstrip('.')}.",
            hint="Copy or download it again.",
        ) from error
    document = parsed_json(own, f"graphdoctor's metadata in {name}", hint=_WRITE_AGAIN)
    if not isinstance(document, dict):
        raise GraphDoctorError(
            f"{name} isn't a survey: its metadata is of something else.", hint=_WRITE_AGAIN
        )
    return document | {"rows": [_row(row) for row in rows]}


def check_installed() -> None:
    """Find out before a survey runs whether its table can be written."""
    import importlib.util

    if importlib.util.find_spec("pyarrow") is None:
        raise _missing("Writing")


def _missing(verb: str) -> GraphDoctorError:
    return GraphDoctorError(
        f"{verb} Parquet needs the package pyarrow.", hint="pip install 'graphdoctor[survey]'"
    )


def _pyarrow(verb: str) -> Any:  # noqa: ANN401 - a module that may be missing
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise _missing(verb) from error
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
        metadata = {_DESCRIPTION: column.description.encode()}
        return pyarrow.field(
            column.name, types[column.type], nullable=column.is_nullable, metadata=metadata
        )

    types["list<struct>"] = pyarrow.list_(
        pyarrow.struct([field(column) for column in CAUSE_COLUMNS])
    )
    return pyarrow.schema([field(column) for column in COLUMNS])


def _array(pyarrow: Any, field: Any, values: Sequence[object]) -> Any:  # noqa: ANN401 - as above
    try:
        return pyarrow.array(values, type=field.type)
    except (pyarrow.ArrowException, OverflowError) as error:
        # Only a document that somebody edited has such a value.
        raise GraphDoctorError(
            f"The column {field.name} can't hold a value of this survey: {error}."
        ) from error


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
