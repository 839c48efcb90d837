"""``graphdoctor fix``: try fixes on the very program, show what each did, and write the verified ones when asked."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.options import (
    TARGET_HELP,
    OutputOptions,
    PythonOption,
    ShownOptions,
    TargetOptions,
    TimeoutOption,
    TrialOptions,
    with_options,
)
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from graphdoctor.fixes.treatment import Treated
    from graphdoctor.model.fixes import Treatment


@with_options
def fix(
    target: Annotated[str, typer.Argument(help=TARGET_HELP, show_default=False)],
    asked: TargetOptions,
    shown: ShownOptions,
    written: OutputOptions,
    trials: TrialOptions,
    is_applied: Annotated[
        bool, typer.Option("--apply", help="Write the verified edits; --force also where git could not undo it.")
    ] = False,
    is_unsafe_tried: Annotated[
        bool, typer.Option("--unsafe-fixes", help="Try fixes too that may change results for other inputs.")
    ] = False,
    is_diff: Annotated[
        bool, typer.Option("--diff", help="Write the verified edits as one patch to standard output.")
    ] = False,
    is_tried: Annotated[
        bool, typer.Option("--try/--no-try", help="Try fixes by running the target once for each; else suggest only.")
    ] = True,
    timeout: TimeoutOption = None,
    python: PythonOption = None,
) -> None:
    """Try fixes on the target, run after run, and show which hold; nothing is written without --apply."""
    from graphdoctor.cli.results import Output, Shown, diagnose_recording
    from graphdoctor.cli.running import exit_code, record_target, request_of, try_fixes
    from graphdoctor.cli.terminal import complain
    from graphdoctor.config import load_settings
    from graphdoctor.fixes.writing import check, write
    from graphdoctor.render.fixes import render_fixes

    if is_applied and not is_tried:
        raise GraphDoctorError("Only verified fixes are written.", hint="Leave --no-try out.")
    if is_diff and (written.output is not None or written.format is not None):
        raise GraphDoctorError("--diff writes a patch to standard output.", hint="Leave -o and --format out.")
    settings = load_settings(Path.cwd())
    output = Output.choose(written)
    chosen = Shown.choose(settings, shown)
    request = request_of(target, asked, coverage=True)
    recording, ended = record_target(request, settings, python=python, timeout_s=timeout, is_quiet=written.quiet)
    treated = try_fixes(
        request,
        recording,
        trials,
        chosen.selection(),
        python=python,
        is_unsafe_tried=is_unsafe_tried,
        is_tried=is_tried,
        is_quiet=written.quiet,
        # Trials take minutes: what must not be written is refused before them.
        check=partial(check, force=written.force) if is_applied else None,
    )
    result = diagnose_recording(recording, chosen, output)
    if is_diff:
        _write_patch(treated)
        if not written.quiet:
            _tell_rest(treated.treatment)
    else:
        output.write(result, render_fixes)
    if is_applied and treated.changes:
        write(treated.changes, force=written.force)
        if not written.quiet:
            for change in treated.changes:
                print(f"Wrote {change.path}", file=sys.stderr)
    elif is_applied and not written.quiet:
        print("There is nothing to write.", file=sys.stderr)
    if ended.message:
        complain(ended.message, ended.hint)
    if code := exit_code(ended, result.diagnosis):
        raise typer.Exit(code)


def _write_patch(treated: Treated) -> None:
    """The edits byte for byte, whatever the files are encoded in."""
    from graphdoctor.fixes.patch import unified_bytes
    from graphdoctor.model.stack import relative

    sys.stdout.flush()
    for change in treated.changes or treated.suggested:
        name = Path(relative(str(change.path), Path.cwd())).as_posix()
        sys.stdout.buffer.write(unified_bytes(change.before, change.after, name.lstrip("/")))
    sys.stdout.flush()


def _tell_rest(treatment: Treatment) -> None:
    """On standard error: verified fixes that are no edits, and findings that no fix took away."""
    for snippet in (*treatment.settings, *treatment.calls):
        print(f"Set yourself:\n{snippet}", file=sys.stderr)
    for left in treatment.left:
        print(f"{left.place}: {left.code} {left.message}\n    not fixed: {left.reason}", file=sys.stderr)
    for note in treatment.notes:
        print(f"Note: {note}", file=sys.stderr)
