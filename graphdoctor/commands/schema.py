"""``graphdoctor schema``: the JSON Schemas of the JSON documents."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer


class Document(StrEnum):
    """What --format json writes."""

    diagnosis = "diagnosis"
    job = "job"
    comparison = "comparison"
    check = "check"
    lint = "lint"
    bench = "bench"
    cure = "cure"
    profile = "profile"
    export = "export"
    survey = "survey"
    survey_comparison = "survey-comparison"


def schema(
    document: Annotated[
        Document,
        typer.Argument(
            # Too many to be listed in one line.
            show_choices=False,
            help="diagnosis, which explain and others write; job, which report writes of several ranks; comparison and "
            "survey-comparison, which diff writes; or check, lint, bench, cure, profile, export or survey, which the "
            "command of that name writes.",
        ),
    ] = Document.diagnosis,
) -> None:
    """Print the JSON Schema of what --format json writes."""
    from graphdoctor.views.json import schema_text

    sys.stdout.write(schema_text(document.value))
