"""JSON documents back to diagnoses: whole ones, later ones, and what is none."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import SCHEMA_VERSION
from graphdoctor.facts.reading import plain
from graphdoctor.rules.diagnosis.comparison import compare
from graphdoctor.rules.gate.documents import read_diagnosis
from graphdoctor.trace.reader import read_recording
from graphdoctor.views.json import json_text
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.factories import diagnosed

RECORDINGS = RECORDED_LOGS / "2.13.0"


def diagnosis_of(name, *, guards=False):
    return diagnosed(read_recording(RECORDINGS / name, guards=guards), root=Path("/home/user/demo"))


def changed(**values):
    return orjson.dumps(plain(diagnosis_of("item")) | values)


@for_each("guards", [False, True])
@for_each("name", sorted(folder.name for folder in RECORDINGS.iterdir()))
def test_a_document_reads_as_what_was_written(name, guards):
    written = diagnosis_of(name, guards=guards)
    assert read_diagnosis(json_text(written).encode(), "a.json") == written


def test_a_byte_order_mark_is_no_trouble():
    assert read_diagnosis(b"\xef\xbb\xbf" + changed(), "a.json") == diagnosis_of("item")


def test_fields_of_a_later_minor_version_are_passed_over():
    document = plain(diagnosis_of("item"))
    version = f"{SCHEMA_VERSION.partition('.')[0]}.99"
    document |= {"schema_version": version, "later": {"x": 1}}
    document["summary"]["later"] = 1
    document["findings"][1] |= {"later": [], "latest": None}
    read = read_diagnosis(orjson.dumps(document), "a.json")
    assert read == diagnosis_of("item").replace(schema_version=version)


@for_each(
    "content, words",
    [
        (b"{", "a.json isn't valid JSON"),
        (changed()[:5000], "a.json isn't valid JSON"),
        (b"[]", "a.json isn't a diagnosis written by graphdoctor"),
        (b'{"schema_version": 1}', "isn't a diagnosis written by graphdoctor"),
        (
            orjson.dumps({"schema_version": SCHEMA_VERSION}),
            "isn't a diagnosis written by graphdoctor",
        ),
        (
            changed(schema_version="1.0"),
            "a.json has schema version 1.0; this graphdoctor reads 2.x",
        ),
        (changed(summary={}), "(schema version 2.0): summary.compiles: Field required"),
        (changed(summary={"later": 1}), "summary.compiles: Field required"),
        (changed(findings="none"), "findings: Input should be a valid array"),
    ],
)
def test_what_is_no_diagnosis_is_refused_by_name(content, words):
    with pytest.raises(GraphDoctorError) as caught:
        read_diagnosis(content, "a.json")
    assert words in caught.value.message
    assert caught.value.hint


def test_a_comparison_is_refused_as_one():
    diagnosis = diagnosis_of("item")
    with pytest.raises(GraphDoctorError, match=r"a\.json is a comparison, not a diagnosis"):
        read_diagnosis(json_text(compare(diagnosis, diagnosis)).encode(), "a.json")
