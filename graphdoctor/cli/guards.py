"""``graphdoctor guards``: what torch checks before it runs compiled code, and what the checks cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.cli.options import (
    TARGET_HELP,
    OutputOptions,
    PythonOption,
    ShownOptions,
    TargetOptions,
    TimeoutOption,
    with_options,
)


@with_options
def guards(
    asked: TargetOptions,
    shown: ShownOptions,
    written: OutputOptions,
    target: Annotated[
        str | None,
        typer.Argument(
            help=f"{TARGET_HELP} Or a recording, or a folder or log file that TORCH_TRACE wrote; "
            "by default the last recording.",
            show_default=False,
        ),
    ] = None,
    timeout: TimeoutOption = None,
    python: PythonOption = None,
) -> None:
    """Show the guards of each compile, and what their checks cost in a steady call."""
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.cli.running import exit_code, record_target, recording_named, request_of
    from graphdoctor.cli.terminal import complain
    from graphdoctor.config import load_settings
    from graphdoctor.render.guards import render_guards

    settings = load_settings(Path.cwd())
    output = Output.choose(written)
    chosen = Shown.choose(settings, shown)
    recording = recording_named(target, settings)
    if recording is not None:
        output.write(diagnose_recording(recording, chosen, output, guards=True), render_guards)
        return
    request = request_of(target or "", asked, coverage=False, guard_cost=True)
    recording, ended = record_target(request, settings, python=python, timeout_s=timeout, is_quiet=written.quiet)
    result = diagnose_recording(recording, chosen, output, guards=True)
    output.write(result, render_guards)
    if ended.message:
        complain(ended.message, ended.hint)
    if code := exit_code(ended, result.diagnosis):
        raise typer.Exit(code)
