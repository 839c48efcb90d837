"""``graphdoctor lint``: what breaks a graph, told from source alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.options import Colour, ColourOption, Format, FormatOption, ShownOptions
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphdoctor.config import Settings
    from graphdoctor.lint import Recorded


def lint(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Python files, or folders with Python files.", show_default=False)
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Only rules whose code begins so, such as GD1. Repeatable.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Leave out rules whose code begins so. Repeatable.")
    ] = None,
    format: FormatOption = None,
    color: ColourOption = Colour.auto,
    recording: Annotated[
        bool,
        typer.Option("--recording/--no-recording", help="Take functions that the last recording saw compiled, too."),
    ] = True,
) -> None:
    """Find what breaks a graph in functions that a file compiles, without running it.

    Told is only what certainly breaks. Exit status: 0 nothing found, 1 findings, 2 a file that cannot be read.
    """
    import graphdoctor
    from graphdoctor.cli.results import Shown
    from graphdoctor.cli.terminal import complain, stdout_console
    from graphdoctor.config import load_settings
    from graphdoctor.lint import lint_files, python_files

    if format not in (None, Format.text, Format.json):
        raise GraphDoctorError(f"Lint cannot write {format}.", hint="Choose text or json.")
    if not files:
        raise GraphDoctorError("No file is named.", hint="graphdoctor lint model.py, or graphdoctor lint src/")
    settings = load_settings(Path.cwd())
    chosen = Shown.choose(settings, ShownOptions(select=select, ignore=ignore))
    report = lint_files(
        [path for named in files for path in python_files(named)],
        root=Path.cwd(),
        version=graphdoctor.__version__,
        selection=chosen.selection(),
        recorded=_last_recording(settings) if recording else None,
    )
    if format is Format.json:
        import sys

        from graphdoctor.render.json import render_json

        sys.stdout.buffer.write(render_json(report).encode())
    else:
        from graphdoctor.render.lint import render_lint

        render_lint(report, stdout_console(color))
    for one in report.unreadable:
        complain(f"{one.file}{f':{one.line}' if one.line else ''} {one.message}.")
    raise typer.Exit(report.exit_code)


def _last_recording(settings: Settings) -> Callable[[], Recorded]:
    """What the last recording saw, where there is one that can be read: lint does not need it."""

    def read() -> Recorded:
        from graphdoctor.capture.store import Store
        from graphdoctor.lint import Recorded, recorded_in
        from graphdoctor.trace.reader import read_recording

        try:
            last = Store(Path.cwd(), keep_count=settings.keep_recordings).last()
            return recorded_in(read_recording(last))
        except GraphDoctorError:
            return Recorded()

    return read
