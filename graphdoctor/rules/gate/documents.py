"""Parses JSON that graphdoctor wrote, and reads a diagnosis back; an error names the file."""

from __future__ import annotations

from typing import Any

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.diagnosis import SCHEMA_VERSION, Diagnosis
from graphdoctor.facts.reading import read_fact

BOM = b"\xef\xbb\xbf"
"""The byte-order mark that some editors put first."""


def parsed_json(content: bytes, name: str, *, hint: str) -> object:
    """Parse a JSON document, with or without a byte-order mark.

    Raises:
        GraphDoctorError: It isn't JSON.
    """
    try:
        return orjson.loads(content.removeprefix(BOM))
    except orjson.JSONDecodeError as error:
        raise GraphDoctorError(f"{name} isn't valid JSON: {error}.", hint=hint) from error


def check_schema(version: str, name: str, *, reads: str, hint: str) -> None:
    """Check that a document's schema has the major version that this graphdoctor reads.

    Args:
        version: The document's schema version, such as ``1.2``.
        name: What the error message calls the document.
        reads: This graphdoctor's version of the schema.
        hint: What the error says to do.

    Raises:
        GraphDoctorError: The major versions differ.
    """
    major = reads.partition(".")[0]
    if version.partition(".")[0] != major:
        raise GraphDoctorError(f"{name} has schema version {version}; this graphdoctor reads {major}.x.", hint=hint)


_HOW = "graphdoctor report --format json writes a diagnosis."


def read_diagnosis(content: bytes, name: str) -> Diagnosis:
    """Read a document.

    Unknown fields are skipped: a later minor version of the schema may have added them.

    Raises:
        GraphDoctorError: It isn't JSON, isn't a diagnosis, or has another major schema version.
    """
    document = _checked(parsed_json(content, name, hint=_HOW), name)
    try:
        return read_fact(Diagnosis, document, skips_unknown=True)
    except InvalidFactError as error:
        version = document["schema_version"]
        raise GraphDoctorError(
            f"{name} isn't a valid diagnosis (schema version {version}): {error}.",
            hint="It was edited, or a newer graphdoctor wrote it. Write it again.",
        ) from error


def _checked(document: object, name: str) -> dict[str, Any]:
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), str):
        raise GraphDoctorError(f"{name} isn't a diagnosis written by graphdoctor.", hint=_HOW)
    hint = "Write it again with this graphdoctor, or read it with the version that wrote it."
    check_schema(document["schema_version"], name, reads=SCHEMA_VERSION, hint=hint)
    if "new" in document and "gone" in document:
        raise GraphDoctorError(f"{name} is a comparison, not a diagnosis.", hint=_HOW)
    if "ranks" in document and "agreement" in document:
        raise GraphDoctorError(
            f"{name} is a report of several ranks, not a diagnosis.",
            hint="Name the recording itself; --rank N --format json writes the diagnosis of one rank.",
        )
    if not {"findings", "summary"} <= document.keys():
        raise GraphDoctorError(f"{name} isn't a diagnosis written by graphdoctor.", hint=_HOW)
    return document
