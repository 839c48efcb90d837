"""The JSON documents and their schemas."""

from __future__ import annotations

from typing import Any

import orjson

from graphdoctor.model.check import CheckReport
from graphdoctor.model.comparison import DiagnosisComparison
from graphdoctor.model.diagnosis import SCHEMA_VERSION, Diagnosis

_KINDS: dict[type[Diagnosis | DiagnosisComparison | CheckReport], str] = {
    Diagnosis: "diagnosis",
    DiagnosisComparison: "comparison",
    CheckReport: "check",
}


def render_json(document: Diagnosis | DiagnosisComparison | CheckReport) -> str:
    """A document as JSON, indented, with a newline at the end."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(document.model_dump(mode="json"), option=options).decode()


def json_schema(document: type[Diagnosis | DiagnosisComparison | CheckReport] = Diagnosis) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a document."""
    from graphdoctor.model.schema import described_schema

    schema = described_schema(document)
    kind = _KINDS[document]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"graphdoctor {kind} {SCHEMA_VERSION}",
    } | {key: value for key, value in schema.items() if key != "title"}
