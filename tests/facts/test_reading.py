"""What comes from outside is read as strictly as JSON allows, and what doesn't fit is named by its
place."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.reading import described_schema, json_of, plain, read_fact, read_json
from graphdoctor.facts.recording import SteadyCall, TargetInfo
from graphdoctor.facts.stack import StackEntry
from tests.each import for_each

ROOT = Path(__file__).parents[2]


def test_each_report_field_is_described_by_docstring_or_name():
    schema = described_schema(Diagnosis)
    fields = [
        field
        for kind in (*schema["$defs"].values(), schema)
        for field in kind.get("properties", {}).values()
    ]
    assert all(field.get("description") for field in fields)
    assert schema["properties"]["findings"]["description"] == "Worst first."
    assert schema["properties"]["graphdoctor_version"]["description"] == "Graphdoctor version."


def test_a_description_names_only_files_that_are_there():
    named = re.findall(r"[\w/]*/\w+\.py\b", json.dumps(described_schema(Diagnosis)))
    assert [
        file for file in named if not file.startswith("torch/") and not (ROOT / file).is_file()
    ] == []


@for_each(
    "fact, value, place, says",
    [
        (Coverage, {"graph_ops": "1"}, ("graph_ops",), "valid integer"),
        (Coverage, {"graph_ops": True, "eager_ops": 1}, ("graph_ops",), "valid integer"),
        (Coverage, {"graph_ops": 1, "eager_ops": 1, "other": 1}, ("other",), "Unexpected"),
        (Coverage, {"graph_ops": 1}, ("eager_ops",), "required"),
        (Coverage, [], (), "an object"),
        (Coverage, {1: 2}, (), "JSON can't hold it"),
        (
            SteadyCall,
            {"call_us": 1, "runs": [{"graph": None}]},
            ("runs", 0, "graph"),
            "valid integer",
        ),
        (SteadyCall, {"call_us": 1, "runs": {}}, ("runs",), "valid array"),
        (TargetInfo, {"kind": "thing"}, ("kind",), "'module'"),
        (TargetInfo, {"config": []}, ("config",), "an object"),
    ],
)
def test_what_does_not_fit_is_named(fact, value, place, says):
    with pytest.raises(InvalidFactError) as refused:
        read_fact(fact, value)
    assert refused.value.place == place
    assert says in str(refused.value)


def test_later_fields_are_skipped_at_any_depth_on_request():
    value = {
        "call_us": 1.0,
        "later": 1,
        "runs": [{"graph": 0, "start_us": 0, "end_us": 1, "later": {}}],
    }
    assert read_fact(SteadyCall, value, skips_unknown=True).runs[0].end_us == 1
    with pytest.raises(InvalidFactError, match="later"):
        read_fact(SteadyCall, value)


def test_what_is_written_is_read_back_equal():
    value = {
        "kind": "module",
        "config": {"a.b": [1, None, {"c": 0.5}]},
        "inputs": ["f32[2]"],
        "parameters": ["x"],
    }
    known = read_fact(TargetInfo, value)
    assert known.parameters == ("x",)
    assert read_json(TargetInfo, json_of(known)) == known == read_fact(TargetInfo, known)
    assert hash(StackEntry(file="a", line=1, function="f", origin="user")) == hash(
        StackEntry(file="a", line=1, function="f", origin="user")
    )


def test_fact_takes_only_its_fields_and_is_immutable():
    values: dict[str, Any] = {"file": "a.py", "line": 1, "function": "f", "origin": "user"}
    entry = StackEntry(**values)
    for wrong in ({"file": "a.py"}, values | {"fil": "b.py"}):
        with pytest.raises(TypeError):
            StackEntry(**wrong)
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.line = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del entry.line
    assert entry != entry.replace(line=2)
    assert [*plain(entry)] == [field.name for field in dataclasses.fields(StackEntry)]
    assert json.loads(json_of(entry.replace(line=2)))["line"] == 2
