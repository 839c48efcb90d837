"""``graphdoctor guards``: what torch checks before it runs compiled code, and what the checks cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.options import (
    Format,
    OutputOptions,
    PythonOption,
    ShownOptions,
    TargetOptions,
    TimeoutOption,
    with_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from graphdoctor.model.diagnosis import Diagnosis


@with_options
def guards(
    asked: TargetOptions,
    shown: ShownOptions,
    written: OutputOptions,
    target: Annotated[
        str | None,
        typer.Argument(
            help="A target as for explain, or a recording, or a folder or log file that TORCH_TRACE wrote; by default "
            "the last recording.",
            show_default=False,
        ),
    ] = None,
    timeout: TimeoutOption = None,
    python: PythonOption = None,
) -> None:
    """Show the guards of each compile, and what their checks cost in a steady call."""
    from graphdoctor.capture.store import Store
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.cli.running import exit_code, record_target, request_of
    from graphdoctor.cli.terminal import complain
    from graphdoctor.config import load_settings

    settings = load_settings(Path.cwd())
    output = Output.choose(written)
    chosen = Shown.choose(settings, shown)
    if target is None or _is_recording(Path(target)):
        recording = Store(Path.cwd(), keep_count=settings.keep_recordings).last() if target is None else Path(target)
        output.write(diagnose_recording(recording, chosen, guards=True), _view)
        return
    request = request_of(target, asked, coverage=False, guard_cost=True)
    recording, ended = record_target(request, settings, python=python, timeout_s=timeout, is_quiet=written.quiet)
    diagnosis = diagnose_recording(recording, chosen, guards=True)
    if diagnosis.calls or diagnosis.compiles or output.format is not Format.text:
        output.write(diagnosis, _view)
    if ended.get("message"):
        complain(ended["message"], ended.get("hint"))
    if code := exit_code(ended, diagnosis):
        raise typer.Exit(code)


def _view(diagnosis: Diagnosis, console: Console, *, is_verbose: bool) -> None:
    from graphdoctor.render.guards import render_guards

    render_guards(diagnosis, console, is_verbose=is_verbose)


def _is_recording(path: Path) -> bool:
    """A folder is never a target, and a target that is a file is Python."""
    try:
        return path.is_dir() or (path.is_file() and path.suffix == ".log")
    except (OSError, ValueError):
        return False
