"""``graphdoctor recompiles``: what made torch compile again, by whose call, at what cost."""

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
from graphdoctor.errors import GraphDoctorError


@with_options
def recompiles(
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
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Replay the calls under each remedy and say which cause binds.")
    ] = False,
    vary: Annotated[
        bool, typer.Option("--vary", help="Change one property of the first call at a time: which compile again?")
    ] = False,
    jobs: Annotated[int, typer.Option(help="How many replays run side by side.", min=1)] = 1,
    timeout: TimeoutOption = None,
    python: PythonOption = None,
) -> None:
    """Say what made torch compile again: which value changed, who changed it, what it cost."""
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.cli.running import exit_code, record_target, recording_named, replay_under_remedies, request_of
    from graphdoctor.cli.terminal import complain
    from graphdoctor.config import load_settings
    from graphdoctor.render.recompiles import render_recompiles
    from graphdoctor.render.variations import render_variations

    settings = load_settings(Path.cwd())
    output = Output.choose(written)
    chosen = Shown.choose(settings, shown)
    recording = recording_named(target, settings)
    if what_if and vary:
        raise GraphDoctorError("--what-if and --vary are two runs.", hint="Leave one of them out.")
    if recording is not None and (what_if or vary):
        raise GraphDoctorError("A recording cannot be replayed.", hint="Name the target again, with its options.")
    if recording is not None:
        result = diagnose_recording(recording, chosen, output)
        output.write(result, render_recompiles if result.diagnosis.sensitivity is None else render_variations)
        return
    request = request_of(target or "", asked, coverage=False, vary=settings if vary else None)
    recording, ended = record_target(request, settings, python=python, timeout_s=timeout, is_quiet=written.quiet)
    if what_if and ended.reason == "finished":
        replay_under_remedies(
            request, recording, settings, python=python, timeout_s=timeout, jobs=jobs, is_quiet=written.quiet
        )
    result = diagnose_recording(recording, chosen, output)
    output.write(result, render_variations if vary else render_recompiles)
    if ended.message:
        complain(ended.message, ended.hint)
    if code := exit_code(ended, result.diagnosis):
        raise typer.Exit(code)
