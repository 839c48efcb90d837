"""``graphdoctor report``: a recording again, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.cli.options import HtmlOption, OpenOption, OutputOptions, ShownOptions, with_options

_PAGE = Path("graphdoctor-report.html")


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
    html: HtmlOption = False,
    is_opened: OpenOption = True,
) -> None:
    """Show a recording again, the last one by default, without running anything."""
    from graphdoctor.capture.store import Store
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.config import load_settings

    settings = load_settings(Path.cwd())
    output = Output.choose_page(written, _PAGE) if html else Output.choose(written)
    chosen = Shown.choose(settings, shown)
    if recording is None:
        recording = Store(Path.cwd(), keep_count=settings.keep_recordings).last()
    output.write(diagnose_recording(recording, chosen, output))
    if html and is_opened:
        output.show()
