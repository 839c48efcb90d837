"""The JSON documents and their schemas."""

from __future__ import annotations

from typing import Any

import orjson

from graphdoctor.model.comparison import DiagnosisComparison
from graphdoctor.model.diagnosis import SCHEMA_VERSION, Diagnosis
from graphdoctor.model.lint import LintReport


def render_json(document: Diagnosis | DiagnosisComparison | LintReport) -> str:
    """A document as JSON, indented, with a newline at the end."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(document.model_dump(mode="json"), option=options).decode()


def json_schema(document: type[Diagnosis | DiagnosisComparison | LintReport] = Diagnosis) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a document."""
    from graphdoctor.model.schema import described_schema

    schema = described_schema(document)
    kind = {Diagnosis: "diagnosis", DiagnosisComparison: "comparison", LintReport: "lint report"}[document]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"graphdoctor {kind} {SCHEMA_VERSION}",
    } | {key: value for key, value in schema.items() if key != "title"}
