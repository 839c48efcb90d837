"""Parses JSON that graphdoctor wrote. Comes in: bytes. Goes out: the document, or an error that names the file."""

from __future__ import annotations

import orjson

from graphdoctor.errors import GraphDoctorError

BOM = b"\xef\xbb\xbf"
"""The byte-order mark that some editors put first."""


def parsed_json(content: bytes, name: str, *, hint: str) -> object:
    """Parse a JSON document, with or without a byte-order mark.

    Args:
        content: The document.
        name: What the error message calls it.
        hint: What the error says to do.

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
