"""``graphdoctor schema``: the JSON Schemas of the JSON documents."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from graphdoctor.commands.options import with_options


def _names() -> list[str]:
    from graphdoctor.views.json import DOCUMENTS

    return list(DOCUMENTS)


@with_options
def schema(
    document: Annotated[
        str,
        typer.Argument(
            autocompletion=_names,
            help="diagnosis, which explain and others write; job, which report writes of several ranks; comparison and "
            "survey-comparison, which diff writes; proposal, which mcp sends; or check, lint, bench, cure, "
            "profile, export or survey, which the command of that name writes.",
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
