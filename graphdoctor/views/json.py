"""The JSON documents and their schemas."""

from __future__ import annotations

from typing import Any

import orjson

from graphdoctor.facts.accuracy import AccuracyReport
from graphdoctor.facts.base import SCHEMA_VERSION, Fact
from graphdoctor.facts.bench import BenchReport, CureReport
from graphdoctor.facts.check import CheckReport, DiagnosisComparison, LintReport
from graphdoctor.facts.diagnosis import Diagnosis, EditRequest
from graphdoctor.facts.export import ExportReport
from graphdoctor.facts.job import Job
from graphdoctor.facts.profile import ProfileReport
from graphdoctor.facts.survey import SurveyReport
from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.facts.values import unknown
from graphdoctor.views.printable import escaped

KINDS: dict[type[Fact], str] = {
    Diagnosis: "diagnosis",
    Job: "job",
    DiagnosisComparison: "comparison",
    CheckReport: "check",
    LintReport: "lint report",
    BenchReport: "bench",
    AccuracyReport: "accuracy",
    CureReport: "cure",
    ProfileReport: "profile",
    ExportReport: "export",
    SurveyReport: "survey",
    SurveyComparison: "survey-comparison",
}
"""What is written as JSON, and its name."""

DOCUMENTS = {name.split()[0]: document for document, name in KINDS.items()} | {
    "proposal": EditRequest
}
"""The same by the first word of its name, and what the author of an edit gets over MCP."""


def json_text(value: object, *, is_indented: bool = True) -> str:
    """Return a value as JSON, with a newline at the end; control characters are escaped, so it is
    safe on a terminal too.
    """
    options = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if is_indented else 0)
    return escaped(orjson.dumps(value, option=options).decode())


def schema_text(kind: str) -> str:
    """JSON Schema of a document, as text."""
    if kind not in DOCUMENTS:
        raise unknown("", "document", kind, DOCUMENTS)
    return orjson.dumps(
        json_schema(DOCUMENTS[kind]), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    ).decode()


def json_schema(document: type[Fact] = Diagnosis) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a document."""
    from graphdoctor.facts.reading import described_schema

    schema = described_schema(document)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"graphdoctor {KINDS.get(document, 'proposal')} {SCHEMA_VERSION}",
    } | {key: value for key, value in schema.items() if key != "title"}
