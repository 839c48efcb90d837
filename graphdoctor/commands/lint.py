"""``graphdoctor lint``: what breaks a graph, by source alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.options import BASELINE, COLOR, NO_BASELINE, Color, with_options
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.views.formats import LINT


@with_options(formats=LINT.names)
def lint(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Python files, or folders with Python files.", show_default=False)
    ] = None,
    select: list[str] | None = option(
        None, "Report only rules whose code begins with this, such as GD1. Repeatable.", flag="--select"
    ),
    ignore: list[str] | None = option(
        None, "Leave out rules whose code begins with this. Repeatable.", flag="--ignore"
    ),
    baseline: Path | None = BASELINE,
    is_without_baseline: bool = NO_BASELINE,
    recording: bool = option(
        True, "Include functions that the last recording saw compiled.", flag="--recording/--no-recording"
    ),
    format: str = option(LINT.names[0], "{formats}.", flag="--format", metavar="FORMAT"),
    color: Color = COLOR,
) -> None:
    """Find certain graph breaks in source without running it.

    Only breaks that are certain are reported, in functions that the source compiles. Those in the
    baseline are known and don't fail.

    Exits with 0 if nothing fails, 1 if a new finding does, and 2 if a file can't be read.
    """
    from graphdoctor.commands.output import Output
    from graphdoctor.commands.running import project_settings
    from graphdoctor.commands.terminal import complain
    from graphdoctor.commands.work.lint import Asked
    from graphdoctor.commands.work.lint import lint as lint_files
    from graphdoctor.views.formats import RenderOptions

    output = Output(LINT.named(format), None, RenderOptions(Path.cwd()), color)
    if not files:
        raise GraphDoctorError("No file is named.", hint="graphdoctor lint model.py, or graphdoctor lint src/")
    if is_without_baseline and baseline is not None:
        raise GraphDoctorError("--baseline and --no-baseline exclude each other.", hint="Give one of them.")
    asked = Asked(
        select=select or (),
        ignore=ignore or (),
        baseline=baseline,
        is_baseline_used=not is_without_baseline,
        is_recording_used=recording,
    )
    report = lint_files(files, project_settings(), asked)
    output.write(report)
    for one in report.unreadable:
        complain(f"{one.file}{f':{one.line}' if one.line else ''} {one.message}.")
    raise typer.Exit(report.exit_code)
