"""``graphdoctor init``: a first ``[tool.graphdoctor]`` section."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.commands.options import with_options
from graphdoctor.facts.spec import option

if TYPE_CHECKING:
    from graphdoctor.commands.work.check import Ran
    from graphdoctor.commands.work.starter import Starter


@with_options
def init(
    is_shown_only: bool = option(False, "Print the section to standard output and write nothing.", flag="--stdout"),
    is_measured: bool = option(
        False, "Run each target that was found, and write budgets that hold now.", flag="--measure"
    ),
) -> None:
    """Find targets in the project's source and add a config section.

    The section goes into pyproject.toml. Nothing of the project is imported, except with --measure.
    """
    from graphdoctor.commands.work.starter import add_section, starter_section, with_budgets

    starter = starter_section(Path.cwd())
    if is_measured and starter.targets:
        starter = with_budgets(starter, _ran(starter))
    if is_shown_only:
        sys.stdout.write(starter.section)
        return
    add_section(starter)
    _summarize(starter)


def _ran(starter: Starter) -> list[Ran]:
    from graphdoctor.commands.gating import RunOptions, run_all
    from graphdoctor.commands.running import this_project
    from graphdoctor.commands.work.check import Chosen

    project = replace(this_project(), root=starter.path.parent, targets=starter.targets)
    return run_all(Chosen(starter.targets), project, RunOptions())


def _summarize(starter: Starter) -> None:
    from graphdoctor.commands.terminal import say, say_result

    say(f"Wrote [tool.graphdoctor] to {starter.path}")
    for candidate in starter.found.ready:
        say_result(f"{candidate.target}  {candidate.why}")
    if starter.found.ready:
        say("Next: graphdoctor check, then graphdoctor baseline to allow what is there now.")
    else:
        say("Found no target that can be run as it is: name one in the section.")
