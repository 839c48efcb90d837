"""``graphdoctor explain``: run a target under torch.compile and report what happened to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from graphdoctor.commands.options import (
    OF_TRIALS,
    TRY,
    CommonOptions,
    Given,
    StagesOptions,
    TargetArgument,
    TrialOptions,
    with_options,
)
from graphdoctor.commands.running import (
    begin,
    finish,
    import_meanwhile,
    recording_of,
    trials_of,
    write_run,
)
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.views.formats import DIAGNOSIS


@with_options(formats=DIAGNOSIS.names)
def explain(
    target: TargetArgument,
    spec: RunSpec,
    common: CommonOptions,
    trials: TrialOptions,
    staged: StagesOptions,
    flags: Given,
    coverage: bool = option(
        True, "Repeat the last call to measure coverage.", flag="--coverage/--no-coverage"
    ),
    is_tried: bool = TRY,
) -> None:
    """Compile a model, call it, and report its graphs and graph breaks.

    Examples:
        graphdoctor explain model.py: where the graph breaks
        graphdoctor explain model.py --try -o report.html: try fixes, write a page
    """
    if not is_tried:
        flags.refuse(OF_TRIALS, without="--try")
    stages = staged.asked(flags)
    if stages is not None and "backend" not in flags:
        spec = replace(spec, backend="inductor")
    settings, output = begin(DIAGNOSIS, common, flags)
    needs = replace(output.needs, stages=stages)
    selection = common.selection(settings)
    has_page = output.needs.picture
    request = Request.of(
        spec,
        Measured(
            coverage=coverage,
            guard_cost=has_page,
            lanes=has_page,
            stages=stages is not None,
            reads=is_tried,
        ),
        target=target,
    )
    asked = trials_of(trials, selection, is_unsafe_tried=True)
    import_meanwhile("graphdoctor.fixes.options")
    with recording_of(request, settings, common, is_warm=is_tried) as (recorded, setup):
        if is_tried:
            from graphdoctor.fixes.kept import try_fixes

            try_fixes(request, recorded.folder, asked, setup)
    result = diagnose_recording(recorded.folder, selection, needs)
    if not is_tried:
        from graphdoctor.fixes.options import with_declined

        result = replace(
            result, diagnosis=with_declined(result.diagnosis, recorded.folder, Path.cwd())
        )
    write_run(output, result)
    finish(recorded, result.diagnosis)
