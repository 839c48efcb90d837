"""``graphdoctor report``: a recording again, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.cli.options import (
    Colour,
    ColourOption,
    ForceOption,
    FormatOption,
    IgnoreOption,
    OutputOption,
    OwnCodeOption,
    QuietOption,
    SelectOption,
    VerboseOption,
)


def report(
    recording: Annotated[
        Path | None,
        typer.Argument(
            help="A recording, or a folder or log file that TORCH_TRACE wrote; by default the last recording.",
            show_default=False,
        ),
    ] = None,
    own_code: OwnCodeOption = None,
    select: SelectOption = None,
    ignore: IgnoreOption = None,
    format: FormatOption = None,
    output: OutputOption = None,
    force: ForceOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
    color: ColourOption = Colour.auto,
) -> None:
    """Show a recording again, the last one by default, without running anything."""
    from graphdoctor.capture.store import Store
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.config import load_settings

    settings = load_settings(Path.cwd())
    chosen = Output.choose(format=format, path=output, force=force, verbose=verbose, colour=color, quiet=quiet)
    shown = Shown.choose(settings, own_code=own_code, select=select, ignore=ignore)
    if recording is None:
        recording = Store(Path.cwd(), keep_count=settings.keep_recordings).last()
    chosen.write(diagnose_recording(recording, shown))
