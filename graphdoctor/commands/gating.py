"""What ``check`` and ``baseline`` share: their arguments, and how targets are run one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.commands.options import QUIET, ProcessOptions

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Project
    from graphdoctor.commands.work.check import Chosen, Ran

TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Names of targets in [tool.graphdoctor], or targets as for explain. By default, all that are configured.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class RunOptions(ProcessOptions):
    """How the gate's targets are run."""

    quiet: bool = QUIET


def run_all(chosen: Chosen, project: Project, asked: RunOptions) -> list[Ran]:
    """Run targets, saying which one on standard error.

    Raises:
        KeyboardInterrupt: A run was interrupted.
    """
    from graphdoctor.commands.progress import Progress
    from graphdoctor.commands.running import import_report_meanwhile
    from graphdoctor.commands.work.check import run_targets

    import_report_meanwhile()
    with Progress(is_quiet=asked.quiet) as progress:

        def announce(name: str, number: int) -> None:
            if not asked.quiet:
                progress.say(f"Checking {name} ({number} of {len(chosen.targets)})")

        return run_targets(
            chosen.targets,
            project,
            watching=progress.watching,
            on_target=announce,
            python=asked.python,
            timeout_s=asked.timeout,
        )
