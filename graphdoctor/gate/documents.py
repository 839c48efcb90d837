"""A JSON document that graphdoctor wrote, back to a ``Diagnosis``."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import ValidationError

from graphdoctor.errors import GraphDoctorError
from graphdoctor.model.diagnosis import SCHEMA_VERSION, Diagnosis

_MAJOR = SCHEMA_VERSION.partition(".")[0]
_HOW = "graphdoctor report --format json writes a diagnosis."


def read_diagnosis(content: bytes, name: str) -> Diagnosis:
    """Read a document.

    Fields that this version does not know are passed over: a document of the same major version may have more.

    Args:
        content: The document.
        name: What to call it in an error.

    Raises:
        GraphDoctorError: It is no JSON, no diagnosis, or one of another major schema version.
    """
    try:
        document = orjson.loads(content.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise GraphDoctorError(f"{name} is no whole JSON document: {error}.", hint=_HOW) from error
    _check_kind(document, name)
    try:
        return _validated(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise GraphDoctorError(
            f"{name} does not read as a diagnosis of schema version {document['schema_version']}: {place}: "
            f"{first['msg']}.",
            hint="It was changed, or a later graphdoctor wrote it: write it again.",
        ) from error


def _check_kind(document: object, name: str) -> None:
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), str):
        raise GraphDoctorError(f"{name} is JSON, but no diagnosis that graphdoctor wrote.", hint=_HOW)
    version = document["schema_version"]
    if version.partition(".")[0] != _MAJOR:
        raise GraphDoctorError(
            f"{name} has schema version {version}; this graphdoctor reads {_MAJOR}.x.",
            hint="Write it again with this graphdoctor, or read it with the one that wrote it.",
        )
    if "new" in document and "gone" in document:
        raise GraphDoctorError(f"{name} is a comparison, not a diagnosis.", hint=_HOW)
    if not {"findings", "summary"} <= document.keys():
        raise GraphDoctorError(f"{name} is JSON, but no diagnosis that graphdoctor wrote.", hint=_HOW)


def _validated(document: dict[str, Any]) -> Diagnosis:
    try:
        return Diagnosis.model_validate(document)
    except ValidationError as error:
        unknown = [item["loc"] for item in error.errors() if item["type"] == "extra_forbidden"]
        for place in unknown:
            _drop(document, place)
        if not unknown:
            raise
    return Diagnosis.model_validate(document)


def _drop(document: Any, place: tuple[int | str, ...]) -> None:  # noqa: ANN401
    *path, name = place
    for part in path:
        document = document[part]
    del document[name]
