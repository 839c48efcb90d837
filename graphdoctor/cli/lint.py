"""``graphdoctor lint``: what breaks a graph, by source alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.cli.options import Color, ColorOption, with_options
from graphdoctor.errors import GraphDoctorError
from graphdoctor.render.formats import LINT


@with_options(formats=LINT.names)
def lint(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Python files, or folders with Python files.", show_default=False)
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", help="Report only rules whose code begins with this, such as GD1. Repeatable."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave out rules whose code begins with this. Repeatable.")
    ] = None,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="{formats}.")] = LINT.names[0],
    color: ColorOption = Color.auto,
    recording: Annotated[
        bool,
        typer.Option("--recording/--no-recording", help="Include functions that the last recording saw compiled."),
    ] = True,
) -> None:
    """Find certain graph breaks in source without running it.

    Only breaks that are certain are reported, in functions that the source compiles.

    Exits with 0 if nothing was found, 1 if there are findings, and 2 if a file can't be
    read.
    """
    from graphdoctor.cli.output import Output
    from graphdoctor.cli.running import project_settings
    from graphdoctor.cli.terminal import complain
    from graphdoctor.render.formats import RenderOptions
    from graphdoctor.runs.diagnose import selection_of
    from graphdoctor.runs.lint import lint as lint_files

    output = Output(LINT.named(format), None, RenderOptions(Path.cwd()), color)
    if not files:
        raise GraphDoctorError("No file is named.", hint="graphdoctor lint model.py, or graphdoctor lint src/")
    settings = project_settings()
    selection = selection_of(settings, select=select, ignore=ignore)
    report = lint_files(files, settings, selection, is_recording_used=recording)
    output.write(report)
    for one in report.unreadable:
        complain(f"{one.file}{f':{one.line}' if one.line else ''} {one.message}.")
    raise typer.Exit(report.exit_code)
