"""``graphdoctor schema``: the JSON Schemas of the JSON documents."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer


class Document(StrEnum):
    """What --format json writes."""

    diagnosis = "diagnosis"
    comparison = "comparison"
    check = "check"
    lint = "lint"


def schema(
    document: Annotated[
        Document,
        typer.Argument(help="comparison, check or lint: what graphdoctor diff, check or lint writes."),
    ] = Document.diagnosis,
) -> None:
    """Print the JSON Schema of what --format json writes."""
    import orjson

    from graphdoctor.model.check import CheckReport
    from graphdoctor.model.comparison import DiagnosisComparison
    from graphdoctor.model.diagnosis import Diagnosis
    from graphdoctor.model.lint import LintReport
    from graphdoctor.render.json import Document as Described
    from graphdoctor.render.json import json_schema

    models: dict[Document, type[Described]] = {
        Document.diagnosis: Diagnosis,
        Document.comparison: DiagnosisComparison,
        Document.check: CheckReport,
        Document.lint: LintReport,
    }
    described = json_schema(models[document])
    sys.stdout.write(orjson.dumps(described, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode())
