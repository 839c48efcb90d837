"""``graphdoctor explain``: run a target under torch.compile and say what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.cli.options import (
    TARGET_HELP,
    Format,
    OutputOptions,
    PythonOption,
    ShownOptions,
    TargetOptions,
    TimeoutOption,
    TrialOptions,
    with_options,
)


@with_options
def explain(
    target: Annotated[str, typer.Argument(help=TARGET_HELP, show_default=False)],
    asked: TargetOptions,
    shown: ShownOptions,
    written: OutputOptions,
    trials: TrialOptions,
    coverage: Annotated[
        bool, typer.Option("--coverage/--no-coverage", help="Repeat the last call to measure coverage.")
    ] = True,
    is_tried: Annotated[
        bool, typer.Option("--try", help="Try fixes, unsafe ones too, and say what each did; nothing is written.")
    ] = False,
    timeout: TimeoutOption = None,
    python: PythonOption = None,
) -> None:
    """Compile a target, make its calls, and say which graphs came out and why it broke."""
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.cli.running import exit_code, record_target, request_of, try_fixes
    from graphdoctor.cli.terminal import complain
    from graphdoctor.config import load_settings

    settings = load_settings(Path.cwd())
    output = Output.choose(written)
    chosen = Shown.choose(settings, shown)
    is_page = output.needs_guards
    request = request_of(target, asked, coverage=coverage, guard_cost=is_page, lanes=is_page)
    recording, ended = record_target(request, settings, python=python, timeout_s=timeout, is_quiet=written.quiet)
    if is_tried:
        try_fixes(
            request,
            recording,
            trials,
            chosen.selection(),
            python=python,
            is_unsafe_tried=True,
            is_tried=True,
            is_quiet=written.quiet,
        )
    result = diagnose_recording(recording, chosen, output)
    diagnosis = result.diagnosis
    if diagnosis.calls or diagnosis.compiles or output.format is not Format.text:
        output.write(result)
    if ended.message:
        complain(ended.message, ended.hint)
    if code := exit_code(ended, diagnosis):
        raise typer.Exit(code)
