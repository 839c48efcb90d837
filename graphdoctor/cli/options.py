"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """What a result can be written as."""

    text = "text"
    json = "json"


class Colour(StrEnum):
    """When to colour text."""

    auto = "auto"
    always = "always"
    never = "never"


FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="Result format; by default what the ending of -o says, else text."),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the result to this file; - is standard output.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite the file that -o names.")]
VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Add operations and code of each graph, and torch's full words."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary on standard error.")]
ColourOption = Annotated[Colour, typer.Option("--color", help="When to colour text.")]
OwnCodeOption = Annotated[
    bool | None,
    typer.Option("--own-code/--all-code", help="Show findings in your own files only, not in packages."),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option("--select", help="Show only rules whose code begins so, such as GD1. Repeatable."),
]
IgnoreOption = Annotated[
    list[str] | None, typer.Option("--ignore", help="Leave out rules whose code begins so. Repeatable.")
]
