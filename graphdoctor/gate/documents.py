"""Reads a diagnosis back. Comes in: a JSON document that graphdoctor wrote. Goes out: a ``Diagnosis``."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from graphdoctor.errors import GraphDoctorError
from graphdoctor.gate.parsing import check_schema, first_problem, parsed_json
from graphdoctor.model.diagnosis import SCHEMA_VERSION, Diagnosis

_HOW = "graphdoctor report --format json writes a diagnosis."


def read_diagnosis(content: bytes, name: str) -> Diagnosis:
    """Read a document.

    Unknown fields are skipped: a later minor version of the schema may have added them.

    Args:
        content: The document.
        name: What error messages call it.

    Raises:
        GraphDoctorError: It isn't JSON, isn't a diagnosis, or has another major schema version.
    """
    document = _checked(parsed_json(content, name, hint=_HOW), name)
    try:
        return _validated(document)
    except ValidationError as error:
        version = document["schema_version"]
        raise GraphDoctorError(
            f"{name} isn't a valid diagnosis (schema version {version}): {first_problem(error)}.",
            hint="It was edited, or a newer graphdoctor wrote it. Write it again.",
        ) from error


def _checked(document: object, name: str) -> dict[str, Any]:
    if not isinstance(document, dict) or not isinstance(document.get("schema_version"), str):
        raise GraphDoctorError(f"{name} isn't a diagnosis written by graphdoctor.", hint=_HOW)
    hint = "Write it again with this graphdoctor, or read it with the version that wrote it."
    check_schema(document["schema_version"], name, reads=SCHEMA_VERSION, hint=hint)
    if "new" in document and "gone" in document:
        raise GraphDoctorError(f"{name} is a comparison, not a diagnosis.", hint=_HOW)
    if not {"findings", "summary"} <= document.keys():
        raise GraphDoctorError(f"{name} isn't a diagnosis written by graphdoctor.", hint=_HOW)
    return document


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
