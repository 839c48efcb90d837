"""``graphdoctor report``: a recording again, without running anything."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.cli.options import Format, OutputOptions, ShownOptions, with_options

PAGE_NAME = "graphdoctor-report.html"


@with_options
def report(
    shown: ShownOptions,
    written: OutputOptions,
    recording: Annotated[
        Path | None,
        typer.Argument(
            help="A recording, or a folder or log file that TORCH_TRACE wrote; by default the last recording.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help=f"Write one HTML file, {PAGE_NAME} unless -o names another.")
    ] = False,
    is_opened: Annotated[
        bool, typer.Option("--open/--no-open", help="Open what --html wrote in a browser, on a terminal only.")
    ] = True,
) -> None:
    """Show a recording again, the last one by default, without running anything."""
    from graphdoctor.capture.store import Store
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.config import load_settings

    settings = load_settings(Path.cwd())
    output = Output.choose(_as_page(written) if html else written)
    chosen = Shown.choose(settings, shown)
    if recording is None:
        recording = Store(Path.cwd(), keep_count=settings.keep_recordings).last()
    output.write(diagnose_recording(recording, chosen, output))
    if html and is_opened and output.path is not None and sys.stdout.isatty():
        typer.launch(str(output.path.resolve()))


def _as_page(written: OutputOptions) -> OutputOptions:
    """The options of a page; a name that nobody gave may be written again and again.

    Raises:
        GraphDoctorError: Another format was asked for too.
    """
    from graphdoctor.errors import GraphDoctorError

    if written.format not in (None, Format.html):
        raise GraphDoctorError(f"--html and --format {written.format} exclude each other.", hint="Give one of them.")
    if written.output is None:
        return replace(written, format=Format.html, output=Path(PAGE_NAME), force=True)
    return replace(written, format=Format.html)
