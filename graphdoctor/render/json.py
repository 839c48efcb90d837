"""The JSON document and its schema."""

from __future__ import annotations

from typing import Any

import orjson

from graphdoctor.model.diagnosis import SCHEMA_VERSION, Diagnosis


def render_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as JSON, indented, with a newline at the end."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(diagnosis.model_dump(mode="json"), option=options).decode()


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the document."""
    from graphdoctor.model.schema import described_schema

    schema = described_schema(Diagnosis)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"graphdoctor diagnosis {SCHEMA_VERSION}",
    } | {key: value for key, value in schema.items() if key != "title"}
