"""Surveys as Parquet files, and read back."""

import csv
import io
import json
import subprocess
import sys

import orjson
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import SCHEMA_VERSION
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.survey import SURVEY_STATUSES
from graphdoctor.studies.survey.run import is_survey, read_survey
from graphdoctor.studies.survey.table import COLUMNS, read_parquet, render_survey_csv, write_parquet
from tests.each import for_each
from tests.studies.survey.reports import cause, failed, report, row

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_COUNT = st.none() | st.integers(0, 2**62)
_NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)
_FLAG = st.none() | st.booleans()


def _causes():
    return st.builds(
        cause,
        code=_TEXT,
        message=_TEXT,
        file=_TEXT,
        line=st.integers(0, 10**6),
        text=st.none() | _TEXT,
        package=st.none() | _TEXT,
        call_us=_NUMBER,
        fix=st.none() | _TEXT,
        fix_verdict=st.sampled_from([None, "verified", "made worse"]),
        diff=st.none() | _TEXT,
        fingerprint=_TEXT,
    )


def _rows():
    return st.builds(
        row,
        name=_TEXT,
        variant=_TEXT,
        status=st.sampled_from(SURVEY_STATUSES),
        stage=st.sampled_from([None, "inductor", "load"]),
        error=st.none() | _TEXT,
        traceback=st.none() | _TEXT,
        family=st.none() | _TEXT,
        calls=_COUNT,
        peak_memory_bytes=_COUNT,
        coverage=_NUMBER,
        compile_cold_s=_NUMBER,
        speedup=_NUMBER,
        is_noisy=_FLAG,
        correct=_FLAG,
        exports=_FLAG,
        seconds=st.floats(0, 1e9),
        attempts=st.integers(1, 5),
        earlier=st.lists(st.sampled_from(SURVEY_STATUSES), max_size=2).map(tuple),
        causes=st.lists(_causes(), max_size=3).map(tuple),
        export_causes=st.lists(_causes(), max_size=2).map(tuple),
        gaps=st.lists(_TEXT, max_size=2).map(tuple),
    )


def _table(content):
    return pyarrow.parquet.read_table(io.BytesIO(content))


def _with(tmp_path, table, name="survey.parquet"):
    path = tmp_path / name
    pyarrow.parquet.write_table(table, path)
    return path


def _with_metadata(tmp_path, **changed):
    table = _table(write_parquet(report()))
    own = json.loads(table.schema.metadata[b"graphdoctor"]) | changed
    return _with(
        tmp_path, table.replace_schema_metadata({b"graphdoctor": json.dumps(own).encode()})
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_rows(), max_size=4),
    st.dictionaries(_TEXT, st.integers() | _TEXT | st.booleans(), max_size=3),
)
def test_a_survey_is_read_back_whole(rows, options):
    options = {
        name: value
        for name, value in options.items()
        if not isinstance(value, int) or abs(value) < 2**63
    }
    written = report(rows, options=options, notes=("one",), shard="1/2", kept=1)
    assert orjson.loads(orjson.dumps(written)) == read_parquet(write_parquet(written), "it")


def test_columns_are_as_declared_described_and_compressed():
    content = write_parquet(report())
    schema = _table(content).schema
    assert schema.names == [column.name for column in COLUMNS]
    for column in COLUMNS:
        field = schema.field(column.name)
        assert field.nullable == column.is_nullable
        assert field.metadata[b"description"].decode() == column.description
    assert schema.field("speedup").type == pyarrow.float64()
    assert schema.field("causes").type.value_type.field("line").type == pyarrow.int64()
    # A column of nulls alone would otherwise have no type, and two files couldn't be put together.
    assert _table(write_parquet(report([]))).schema.equals(schema)
    stored = pyarrow.parquet.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(0)
    assert stored.compression == "ZSTD"


def test_a_file_that_is_cut_off_says_so(tmp_path):
    content = write_parquet(report())
    path = tmp_path / "a.parquet"
    for length in (len(content) - 1, len(content) // 2, 5):
        path.write_bytes(content[:length])
        with pytest.raises(GraphDoctorError, match=r"a\.parquet is cut off"):
            read_survey(path)


def test_a_damaged_file_is_a_sentence(tmp_path):
    content = bytearray(write_parquet(report()))
    path = tmp_path / "a.parquet"
    for start in range(4, len(content) - 4, 997):
        spoiled = bytes(content[:start]) + b"\xff" * 40 + bytes(content[start + 40 :])
        path.write_bytes(spoiled[: len(content) - 4] + b"PAR1")
        try:
            read_survey(path)
        except GraphDoctorError as error:
            assert "a.parquet" in error.message


def test_a_newer_major_schema_says_so(tmp_path):
    newer = f"{int(SCHEMA_VERSION.partition('.')[0]) + 1}.0"
    with pytest.raises(
        GraphDoctorError, match=f"has schema version {newer}; this graphdoctor reads"
    ) as raised:
        read_survey(_with_metadata(tmp_path, schema_version=newer, rows=None))
    assert "with the version that wrote it" in (raised.value.hint or "")


def test_a_newer_minor_schema_is_read_without_what_is_new(tmp_path):
    newer = f"{SCHEMA_VERSION.partition('.')[0]}.999"
    table = pyarrow.parquet.read_table(_with_metadata(tmp_path, schema_version=newer, news=1))
    more = table.append_column("news", pyarrow.array([1] * len(table)))
    assert read_survey(_with(tmp_path, more)).rows == report().rows


def test_a_column_that_an_older_version_lacks_is_unknown(tmp_path):
    table = _table(write_parquet(report()))
    (back, *_) = read_survey(_with(tmp_path, table.drop_columns(["exports", "gaps"]))).rows
    assert (back.exports, back.gaps) == (None, ())


def test_what_no_row_can_be_says_where(tmp_path):
    table = _table(write_parquet(report()))
    with pytest.raises(
        GraphDoctorError, match=r"isn't a valid survey .*rows\.0\.status: Field required"
    ):
        read_survey(_with(tmp_path, table.drop_columns(["status"])))
    (tmp_path / "a.parquet").write_bytes(write_parquet(report([row().replace(status="melted")])))
    with pytest.raises(GraphDoctorError, match=r"rows\.0\.status: Input should be 'ok'"):
        read_survey(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "isn't valid JSON"),
        ("[]", "isn't a survey"),
        ('{"schema_version": "99.0"}', "has schema version 99.0"),
        (f'{{"schema_version": "{SCHEMA_VERSION}", "findings": []}}', "isn't a survey"),
        ("", "is empty"),
        ("name,target\n", "isn't a Parquet file"),
        ("PAR1", "is cut off"),
    ],
)
def test_a_document_that_is_no_survey_says_so(tmp_path, text, said):
    path = tmp_path / ("a.json" if text[:1] in ("{", "[") else "a.parquet")
    path.write_text(text)
    with pytest.raises(GraphDoctorError, match=said):
        read_survey(path)


def test_surveys_are_known_by_what_they_hold(tmp_path):
    (tmp_path / "renamed").write_bytes(write_parquet(report()))
    (tmp_path / "a.json").write_text(json_of(report()))
    (tmp_path / "diagnosis.json").write_text('{"schema_version": "1.0", "findings": []}')
    (tmp_path / "trace.log").write_text("V1121 …")
    (tmp_path / "empty.json").write_text("")
    assert {path.name: is_survey(path) for path in tmp_path.iterdir()} == {
        **{"renamed": True, "a.json": True},
        **{"diagnosis.json": False, "trace.log": False, "empty.json": False},
    }
    assert not is_survey(tmp_path)
    assert not is_survey(tmp_path / "missing.json")


def test_a_folder_of_shards_is_one_survey(tmp_path):
    rows = report().rows
    for number, part in ((1, rows[:4]), (2, rows[4:])):
        (tmp_path / f"shard-{number}").mkdir()
        shard = report(part, shard=f"{number}/2")
        (tmp_path / f"shard-{number}" / "survey.parquet").write_bytes(write_parquet(shard))
    assert is_survey(tmp_path)
    whole = read_survey(tmp_path)
    assert whole.rows == rows
    assert (whole.shard, whole.planned, whole.seconds) == (None, len(rows), 520.0)


def test_without_pyarrow_it_says_what_to_install(tmp_path):
    (tmp_path / "a.parquet").write_bytes(write_parquet(report()))
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path\n"
        "from graphdoctor.studies.survey.run import read_survey\n"
        "from graphdoctor.errors import GraphDoctorError\n"
        "try: read_survey(Path('a.parquet'))\n"
        "except GraphDoctorError as error: print(error.message, error.hint)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (
        done.stdout.strip()
        == "Reading Parquet needs the package pyarrow. pip install 'graphdoctor[survey]'"
    )


# Columns.

_FIRST = [
    *("name", "target", "variant", "status", "stage", "error", "torch", "device", "calls"),
    *("break_sites", "skipped_frames", "recompiles", "graphs", "coverage", "compile_cold_s"),
    *("call_us", "eager_us", "speedup", "speedup_low", "speedup_high", "peak_memory_bytes"),
    *("correct", "top_code", "top_location", "top_fix", "seconds", "fingerprint"),
]


def test_the_promised_columns_come_first_in_order():
    assert [column.name for column in COLUMNS][: len(_FIRST)] == _FIRST


# CSV.


def read(*rows):
    text = render_survey_csv(report(rows))
    assert len(text.splitlines()) == len(rows) + 1
    return list(csv.DictReader(io.StringIO(text)))


def test_a_cell_holds_what_the_column_says():
    (found,) = read(
        row(causes=(cause(fix_verdict="verified"),), earlier=("crashed", "timeout"), batch=4)
    )
    expected = {
        "speedup": "1.5",
        "batch": "4",
        "correct": "true",
        "noisy": "false",
        "top_location": "transformers/masking.py:41",
        "top_fix": "Keep the value in a tensor",
        "earlier": "crashed; timeout",
        "gaps": "",
    }
    assert {name: found[name] for name in expected} == expected
    assert [*found] == [column.name for column in COLUMNS if column.type != "list<struct>"]


def test_what_is_unknown_is_empty_and_zero_is_zero():
    unknown, known = read(failed("t5", "timeout"), row(break_sites=0))
    assert {
        unknown[name] for name in ("break_sites", "speedup", "correct", "coverage", "top_code")
    } == {""}
    assert known["break_sites"] == "0"


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\n=1", "\uff1d1", "-", "-e"]
PLAIN = ["a=b", "1-2", "me@here", "a, b", 'say "no"', "x;y"]


@for_each(
    "text, is_escaped", [*((text, True) for text in FORMULAS), *((text, False) for text in PLAIN)]
)
def test_only_text_starting_like_a_formula_is_escaped(text, is_escaped):
    (found,) = read(failed(text, "load_failed", error=text))
    for name in ("name", "error"):
        assert found[name].startswith("'") is is_escaped
        assert is_escaped or found[name] == text


def test_an_error_of_several_lines_is_one_line():
    (found,) = read(
        failed("t5", "compile_failed", error="first\r\nsecond\n\nthird", traceback="a\n  b\n")
    )
    assert found["error"] == "first↵second↵↵third"
    assert found["traceback"] == "a↵  b"
