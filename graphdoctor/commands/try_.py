"""``graphdoctor try``: whether an edit that somebody wrote holds, without writing it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.options import (
    APPLY,
    UNSAFE_FIXES,
    CommonOptions,
    Given,
    TargetArgument,
    TrialOptions,
    argument,
    with_options,
)
from graphdoctor.commands.running import begin, finish, recording_of, trials_of
from graphdoctor.commands.terminal import say
from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.facts.fixes import LOSSY, WORKING
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import FIXES_FILE
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.views.formats import FIXES

_EXIT_REFUTED = 1


@with_options(formats=FIXES.names)
def try_(
    patch: Annotated[str, argument("A unified diff of Python files; - is standard input.")],
    target: TargetArgument,
    spec: RunSpec,
    common: CommonOptions,
    trials: TrialOptions,
    flags: Given,
    is_applied: bool = APPLY,
    is_unsafe_tried: bool = UNSAFE_FIXES,
) -> None:
    """Try a patch that somebody wrote, as fixes are tried, and say whether it holds.

    Exits with 1 if it changes results, gains nothing or can't be proven, or without --unsafe-fixes
    loses prints when compiled. Nothing is written without --apply.

    Examples:
        graphdoctor try PATCH.diff model.py: does my edit hold?
        graphdoctor try PATCH.diff model.py --apply: write it if it does
    """
    from graphdoctor.fixes.diffs import DiffError, changes_of
    from graphdoctor.fixes.kept import try_fixes
    from graphdoctor.fixes.patch import Patch
    from graphdoctor.fixes.writing import check, write

    settings, output = begin(FIXES, common, flags, is_applied=is_applied)
    try:
        tried = Patch(patch, changes_of(_read(patch), Path.cwd(), Path.read_bytes))
    except DiffError as error:
        raise GraphDoctorError(f"The patch can't be tried: {error.reason}.") from error
    if is_applied:
        check(tried.changes, force=common.force)
    selection = common.selection(settings)
    request = Request.of(spec, Measured(coverage=True, reads=True), target=target)
    options = trials_of(trials, selection, is_unsafe_tried=is_unsafe_tried)
    with recording_of(request, settings, common, is_warm=True) as (recorded, setup):
        treated = try_fixes(request, recorded.folder, options, setup, patch=tried)
    result = diagnose_recording(recorded.folder, selection, output.needs)
    output.write(result)
    verdict = treated.treatment.patch.verdict if treated.treatment.patch else "not tried"
    is_held = verdict in WORKING and (is_unsafe_tried or verdict != LOSSY)
    if is_applied and is_held:
        write(tried.changes, force=common.force)
        write_fact(treated.treatment.replace(is_written=True), recorded.folder / FIXES_FILE)
        if not common.quiet:
            say(*(f"Wrote {change.path}" for change in tried.changes))
    finish(recorded, result.diagnosis)
    if not is_held:
        raise typer.Exit(_EXIT_REFUTED)


def _read(patch: str) -> str:
    if patch == "-":
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    with os_errors(patch, "read"):
        return Path(patch).read_bytes().decode("utf-8", "surrogateescape")
