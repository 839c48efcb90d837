"""``graphdoctor schema``: the JSON Schemas of the JSON documents."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

Document = Literal[
    "diagnosis",
    "job",
    "comparison",
    "check",
    "lint",
    "bench",
    "cure",
    "profile",
    "export",
    "survey",
    "survey-comparison",
]


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
    ] = "diagnosis",
) -> None:
    """Print the JSON Schema of what --format json writes.

    Examples:
        graphdoctor schema: of what explain and others write
        graphdoctor schema check: of what check writes
    """
    from graphdoctor.views.json import schema_text

    sys.stdout.write(schema_text(document))
