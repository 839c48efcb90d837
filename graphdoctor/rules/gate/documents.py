"""Parses JSON that graphdoctor wrote, and reads a diagnosis back; an error names the file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import SCHEMA_VERSION, Fact, InvalidFactError
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.reading import read_fact

_Fact = TypeVar("_Fact", bound=Fact)

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
        raise GraphDoctorError(
            f"{name} has schema version {version}; this graphdoctor reads {major}.x.", hint=hint
        )


def read_document(
    kind: type[_Fact], document: object, name: str, *, what: str, has: Collection[str], hint: str
) -> _Fact:
    """Return a parsed document as a fact.

    Unknown fields are skipped: a later minor version of the schema may have added them. ``what`` it
    should be, such as ``a survey``, is told from others by the fields that it ``has``; ``hint``
    says how to get one.

    Raises:
        GraphDoctorError: It is something else, or has another major schema version.
    """
    if not isinstance(document, dict) or not isinstance(
        version := document.get("schema_version"), str
    ):
        raise GraphDoctorError(f"{name} isn't {what} written by graphdoctor.", hint=hint)
    again = "Write it again with this graphdoctor, or read it with the version that wrote it."
    check_schema(version, name, reads=SCHEMA_VERSION, hint=again)
    if not document.keys() >= {*has}:
        raise GraphDoctorError(f"{name} isn't {what} written by graphdoctor.", hint=hint)
    try:
        return read_fact(kind, document, skips_unknown=True)
    except InvalidFactError as error:
        raise GraphDoctorError(
            f"{name} isn't {what.replace(' ', ' valid ', 1)} (schema version {version}): {error}.",
            hint="It was edited, or a newer graphdoctor wrote it. Write it again.",
        ) from error


def read_diagnosis(content: bytes, name: str) -> Diagnosis:
    """Read a document, as ``read_document`` does."""
    hint = "graphdoctor report --format json writes a diagnosis."
    document = parsed_json(content, name, hint=hint)
    known = document if isinstance(document, dict) else {}
    if "new" in known and "gone" in known:
        raise GraphDoctorError(f"{name} is a comparison, not a diagnosis.", hint=hint)
    if "ranks" in known and "agreement" in known:
        raise GraphDoctorError(
            f"{name} is a report of several ranks, not a diagnosis.",
            hint=(
                "Name the recording itself; --rank N --format json writes the diagnosis of one"
                " rank."
            ),
        )
    return read_document(
        Diagnosis, document, name, what="a diagnosis", has=("findings", "summary"), hint=hint
    )


def file_content(path: Path, *, missing: str, hint: str) -> bytes:
    """Return what a file holds.

    Raises:
        GraphDoctorError: It isn't there, which ``missing`` says, or can't be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise GraphDoctorError(missing, hint=hint) from None
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
