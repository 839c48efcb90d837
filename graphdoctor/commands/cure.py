"""``graphdoctor cure``: the fastest correct way to run a target, and what must change for it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import typer

from graphdoctor.commands.options import (
    APPLY,
    UNSAFE_FIXES,
    CommonOptions,
    Given,
    TargetArgument,
    with_options,
)
from graphdoctor.commands.running import EXIT_FAILED, begin, finish, recording_of, tell_place
from graphdoctor.commands.terminal import EXIT_INTERRUPTED, say
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.studies.documents import CURE
from graphdoctor.trials.launch.request import Measured, Request


@with_options(formats=CURE.names, defaults={"backend": "inductor"})
def cure(
    target: TargetArgument,
    spec: RunSpec,
    common: CommonOptions,
    flags: Given,
    budget: float = option(300.0, "Start no new step after this many seconds.", metavar="SECONDS"),
    is_cold: bool = option(
        False,
        "Also measure starts with an empty cache, and keep changes that compile faster.",
        flag="--cold",
        heading="What to measure",
    ),
    is_applied: bool = APPLY,
    is_unsafe_tried: bool = UNSAFE_FIXES,
) -> None:
    """Search for the fastest correct way to run a target.

    Reports what must change for it; writes nothing without --apply.

    Examples:
        graphdoctor cure model.py: the fastest way, and what must change for it
        graphdoctor cure model.py --budget 600 --apply: search for ten minutes, then write the edits
    """
    from graphdoctor.fixes.patch import FileChange
    from graphdoctor.fixes.writing import check, write

    settings, output = begin(CURE, common, flags, is_applied=is_applied)
    selection = common.selection(settings)
    request = Request.of(spec, Measured(coverage=True, reads=True), target=target)
    with recording_of(request.quick, settings, common, is_warm=True) as (recorded, setup):
        diagnosis = diagnose_recording(recorded.folder, selection).diagnosis
        if recorded.exit.reason != "finished":
            finish(recorded, diagnosis)
        # Not earlier: the recorded run begins sooner.
        from graphdoctor.fixes.patch import SearchOptions
        from graphdoctor.studies.bench.cure import cure as search

        options = SearchOptions(selection, is_unsafe_tried=is_unsafe_tried)
        # What must not be written is refused before the search; the target's own file before
        # anything is timed.
        refused = partial(check, force=common.force) if is_applied else None
        if refused is not None and diagnosis.findings and (file := request.target.file) is not None:
            content = Path(file).read_bytes()
            refused([FileChange(Path(file), content, content)])
        report, changes = search(
            request,
            recorded.folder,
            diagnosis,
            options,
            setup,
            refused,
            budget_s=budget,
            is_cold=is_cold,
        )
    output.write(report)
    if is_applied and not report.is_interrupted:
        write(changes, force=common.force)
        if not common.quiet:
            say(*[f"Wrote {change.path}" for change in changes] or ["There is nothing to write."])
    tell_place(recorded.made)
    if report.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if report.best is None:
        raise typer.Exit(EXIT_FAILED)
