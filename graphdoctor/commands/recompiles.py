"""``graphdoctor recompiles``: what made torch compile again, who changed it, and at what cost."""

from __future__ import annotations

from graphdoctor.commands.named import diagnose_place, place_or_target
from graphdoctor.commands.options import (
    ON,
    RANK,
    CommonOptions,
    Given,
    TargetOrRecordingArgument,
    with_options,
)
from graphdoctor.commands.running import begin, finish, recording_of, write_run
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.local import executor_for
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.studies.ranks.job import check_one_rank
from graphdoctor.trials.launch.request import Request, Variation
from graphdoctor.views.formats import RECOMPILES, VARIATIONS


@with_options(formats=RECOMPILES.names)
def recompiles(
    spec: RunSpec,
    common: CommonOptions,
    flags: Given,
    target: TargetOrRecordingArgument = None,
    rank: int | None = RANK,
    what_if: bool = option(
        False, "Replay the calls under each remedy to find which cause matters."
    ),
    vary: bool = option(
        False, "Change one property of the first call at a time: which ones recompile?"
    ),
    jobs: int | None = option(
        None,
        "How many replays to run side by side, by default 1. Of a recording, how many logs to"
        " read side by side, by default one for each core.",
        metavar="N",
        least=1,
    ),
    on: str | None = ON,
) -> None:
    """Report what made torch recompile: what changed, where, the cost.

    Of a target, which is run, or of a recording, by default the last one.

    Examples:
        graphdoctor recompiles model.py: which values made torch recompile
        graphdoctor recompiles model.py --what-if: which cause matters most
    """
    if what_if and vary:
        raise GraphDoctorError(
            "--what-if and --vary are separate runs.", hint="Leave out one of them."
        )
    settings, output = begin(VARIATIONS if vary else RECOMPILES, common, flags)
    selection = common.selection(settings)
    place = place_or_target(target, settings)
    if place is not None:
        flags.refuse_run("what_if", "vary")
        if rank is None and place.kind != "document":
            check_one_rank(place.location, "recompiles")
        result = diagnose_place(
            place, selection, output.needs, rank=rank, executor=executor_for(jobs=jobs, on=on)
        )
        if result.diagnosis.recording.variations is not None:
            output = output.showing(VARIATIONS)
        output.write(result)
        return
    flags.refuse(("on", "rank"), without="a recording")
    if not what_if:
        flags.refuse(("jobs",), without="--what-if")
    variation = Variation(settings.vary_count, settings.vary_seconds) if vary else None
    request = Request.of(spec, vary=variation, target=target)
    with recording_of(request, settings, common) as (recorded, setup):
        if what_if and recorded.exit.reason == "finished":
            from graphdoctor.fixes.what_if import what_if as replay_under_remedies

            try:
                replay_under_remedies(request, recorded.folder, setup, jobs=jobs or 1)
            except KeyboardInterrupt:
                output.write(diagnose_recording(recorded.folder, selection, output.needs))
                raise
    result = diagnose_recording(recorded.folder, selection, output.needs)
    write_run(output, result)
    finish(recorded, result.diagnosis)
