"""The columns of a survey's table."""

from __future__ import annotations

from graphdoctor.studies.survey.columns import COLUMNS, flat_columns
from tests.studies.survey.reports import cause, failed, report, row

_FIRST = [
    *(
        "name",
        "target",
        "variant",
        "status",
        "stage",
        "error",
        "torch",
        "device",
        "calls",
        "break_sites",
    ),
    *(
        "skipped_frames",
        "recompiles",
        "graphs",
        "coverage",
        "compile_cold_s",
        "call_us",
        "eager_us",
        "speedup",
    ),
    *(
        "speedup_low",
        "speedup_high",
        "peak_memory_bytes",
        "correct",
        "top_code",
        "top_location",
        "top_fix",
    ),
    *("seconds", "fingerprint"),
]
_PYTHON = {
    "string": str,
    "int64": int,
    "float64": float,
    "bool": bool,
    "list<string>": tuple,
    "list<struct>": tuple,
}


def _values(row):
    return {column.name: column.read(row) for column in COLUMNS}


def test_the_promised_columns_come_first_in_order():
    assert [column.name for column in COLUMNS][: len(_FIRST)] == _FIRST


def test_what_is_read_has_the_declared_type():
    for one in report().rows:
        for column in COLUMNS:
            value = column.read(one)
            assert isinstance(value, _PYTHON[column.type]) or (
                value is None and column.is_nullable
            ), column.name


def test_the_first_cause_is_the_top():
    first = cause(
        code="GD103", file="net.py", line=7, fix="Use torch.where", fix_verdict="verified"
    )
    values = _values(row(causes=(first, cause())))
    assert values["top_code"] == "GD103"
    assert values["top_location"] == "net.py:7"
    assert values["top_fix"] == "Use torch.where"


def test_without_a_verified_fix_or_a_cause_there_is_none_on_top():
    assert _values(row(causes=(cause(fix_verdict="not tried"),)))["top_fix"] is None
    values = _values(failed("a", "timeout"))
    assert (values["top_code"], values["top_location"], values["top_fix"]) == (None, None, None)


def test_attempts_that_differ_make_a_row_flaky():
    assert _values(row(attempts=2, earlier=("crashed",)))["flaky"] is True
    assert _values(row())["flaky"] is False


def test_only_causes_are_too_deep_for_cells():
    assert {column.name for column in COLUMNS} - {column.name for column in flat_columns()} == {
        "causes",
        "export_causes",
    }
