"""A survey as CSV."""

from __future__ import annotations

import csv
import io

from graphdoctor.facts.survey import SurveyRow
from graphdoctor.studies.survey.columns import COLUMNS, flat_columns, render_survey_csv
from tests.each import for_each
from tests.studies.survey.reports import cause, failed, report, row


def read(*rows: SurveyRow) -> list[dict[str, str]]:
    text = render_survey_csv(report(rows))
    assert len(text.splitlines()) == len(rows) + 1
    return list(csv.DictReader(io.StringIO(text)))


def test_it_has_every_column_but_causes_in_their_order() -> None:
    (found,) = read(row())
    assert [*found] == [column.name for column in COLUMNS if column.type != "list<struct>"]


def test_a_cell_holds_what_the_column_says() -> None:
    (found,) = read(
        row(causes=(cause(fix_verdict="verified"),), earlier=("crashed", "timeout"), batch=4)
    )
    columns = {column.name: column for column in flat_columns()}
    assert found["speedup"] == "1.5"
    assert found["calls"] == "2"
    assert found["batch"] == "4"
    assert found["correct"] == "true"
    assert found["noisy"] == "false"
    assert found["top_location"] == "transformers/masking.py:41"
    assert found["top_fix"] == "Keep the value in a tensor"
    assert found["earlier"] == "crashed; timeout"
    assert found["gaps"] == ""
    assert {*found} == {*columns}


def test_what_is_unknown_is_empty_and_zero_is_zero() -> None:
    unknown, known = read(failed("t5", "timeout"), row(break_sites=0))
    assert {
        unknown[name] for name in ("break_sites", "speedup", "correct", "coverage", "top_code")
    } == {""}
    assert known["break_sites"] == "0"


@for_each("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\n=1", "\uff1d1", "-", "-e"])
def test_a_text_that_begins_as_a_formula_is_one_no_more(text: str) -> None:
    (found,) = read(failed(text, "load_failed", error=text))
    for name in ("name", "error"):
        assert found[name].startswith("'")


@for_each("text", ["a=b", "1-2", "me@here", "a, b", 'say "no"', "x;y"])
def test_other_text_stays_as_it_is(text: str) -> None:
    (found,) = read(row(text))
    assert found["name"] == text


def test_a_negative_number_is_still_a_number() -> None:
    (found,) = read(row(seconds=-0.5))
    assert found["seconds"] == "-0.5"


def test_an_error_of_several_lines_is_one_line() -> None:
    (found,) = read(
        failed("t5", "compile_failed", error="first\r\nsecond\n\nthird", traceback="a\n  b\n")
    )
    assert found["error"] == "first↵second↵↵third"
    assert found["traceback"] == "a↵  b"
