"""``graphdoctor init``: a first ``[tool.graphdoctor]`` section."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from graphdoctor.runs.starter import Starter


def init(
    is_shown_only: Annotated[
        bool, typer.Option("--stdout", help="Print the section to standard output and write nothing.")
    ] = False,
) -> None:
    """Find targets in the project's source and add a config section.

    The section goes into pyproject.toml. Nothing of the project is imported.
    """
    from graphdoctor.runs.starter import add_section, starter_section

    starter = starter_section(Path.cwd())
    if is_shown_only:
        sys.stdout.write(starter.section)
        return
    add_section(starter)
    _summarize(starter)


def _summarize(starter: Starter) -> None:
    from graphdoctor.cli.terminal import say, say_result

    say(f"Wrote [tool.graphdoctor] to {starter.path}")
    for candidate in starter.found.ready:
        say_result(f"{candidate.target}  {candidate.why}")
    if starter.found.ready:
        say("Next: graphdoctor check, then graphdoctor baseline to allow what is there now.")
    else:
        say("Found no target that can be run as it is: name one in the section.")
