"""The columns of a survey's table."""

from __future__ import annotations

import pytest

from graphdoctor.facts.base import field_types
from graphdoctor.facts.survey import SurveyCause, SurveyRow
from graphdoctor.studies.survey.columns import CAUSE_COLUMNS, COLUMNS, cells, flat_columns
from tests.survey_reports import cause, failed, report, row

_FIRST = [
    *("name", "target", "variant", "status", "stage", "error", "torch", "device", "calls", "break_sites"),
    *("skipped_frames", "recompiles", "graphs", "coverage", "compile_cold_s", "call_us", "eager_us", "speedup"),
    *("speedup_low", "speedup_high", "peak_memory_bytes", "correct", "top_code", "top_location", "top_fix"),
    *("seconds", "fingerprint"),
]
_PYTHON = {"string": str, "int64": int, "float64": float, "bool": bool, "list<string>": tuple, "list<struct>": tuple}


def _values(row):
    return {column.name: value for column, value in cells(row)}


def test_the_promised_columns_come_first_in_order():
    assert [column.name for column in COLUMNS][: len(_FIRST)] == _FIRST


@pytest.mark.parametrize(("columns", "model"), [(COLUMNS, SurveyRow), (CAUSE_COLUMNS, SurveyCause)])
def test_every_field_is_in_exactly_one_column(columns, model):
    held = [column.field for column in columns if column.field is not None]
    assert sorted(held) == sorted(field_types(model))
    assert len({column.name for column in columns}) == len(columns)


@pytest.mark.parametrize(("columns", "model"), [(COLUMNS, SurveyRow), (CAUSE_COLUMNS, SurveyCause)])
def test_types_are_those_of_the_fields(columns, model):
    types = field_types(model)
    plain = {"string": "str", "int64": "int", "float64": "float", "bool": "bool"}
    for column in columns:
        if column.field is None or column.type not in plain:
            continue
        declared = str(types[column.field])
        is_text = "Literal" in declared
        assert is_text or plain[column.type] in declared, column.name
        assert column.is_nullable == ("None" in declared or "Optional" in declared), column.name


def test_what_is_read_has_the_declared_type():
    for one in report().rows:
        for column, value in cells(one):
            assert isinstance(value, _PYTHON[column.type]) or (value is None and column.is_nullable), column.name


def test_the_first_cause_is_the_top():
    first = cause(code="GD103", file="net.py", line=7, fix="Use torch.where", fix_verdict="verified")
    values = _values(row(causes=(first, cause())))
    assert values["top_code"] == "GD103"
    assert values["top_location"] == "net.py:7"
    assert values["top_fix"] == "Use torch.where"


def test_a_fix_that_nobody_verified_is_no_top_fix():
    assert _values(row(causes=(cause(fix_verdict="not tried"),)))["top_fix"] is None


def test_a_row_without_causes_has_no_top():
    values = _values(failed("a", "timeout"))
    assert (values["top_code"], values["top_location"], values["top_fix"]) == (None, None, None)


def test_compile_time_without_a_bench_is_not_that_of_an_empty_cache():
    values = _values(row(compile_s=1.5, compile_cold_s=None))
    assert (values["compile_cold_s"], values["compile_s"]) == (None, 1.5)


def test_attempts_that_differ_make_a_row_flaky():
    assert _values(row(attempts=2, earlier=("crashed",)))["flaky"] is True
    assert _values(row())["flaky"] is False


def test_only_causes_are_too_deep_for_cells():
    assert {column.name for column in COLUMNS} - {column.name for column in flat_columns()} == {
        "causes",
        "export_causes",
    }


def test_descriptions_are_one_line_and_end_as_sentences():
    for column in (*COLUMNS, *CAUSE_COLUMNS):
        assert column.description.endswith("."), column.name
        assert "\n" not in column.description, column.name
