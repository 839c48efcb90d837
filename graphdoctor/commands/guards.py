"""``graphdoctor guards``: what torch checks before it runs compiled code, and what the checks
cost.
"""

from __future__ import annotations

from graphdoctor.commands.named import diagnose_place, place_or_target
from graphdoctor.commands.options import (
    OF_EXECUTOR,
    RANK,
    CommonOptions,
    ExecutorOptions,
    Given,
    TargetOrRecordingArgument,
    with_options,
)
from graphdoctor.commands.running import begin, finish, recording_of, write_run
from graphdoctor.facts.spec import RunSpec
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.studies.ranks.job import check_one_rank
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.views.formats import GUARDS


@with_options(formats=GUARDS.names)
def guards(
    spec: RunSpec,
    common: CommonOptions,
    reading: ExecutorOptions,
    flags: Given,
    target: TargetOrRecordingArgument = None,
    rank: int | None = RANK,
) -> None:
    """Show each compile's guards and what checking them costs.

    The cost is measured in a steady call, one that compiles nothing anymore.

    Examples:
        graphdoctor guards model.py: what torch checks, and the time it takes
        graphdoctor guards -v: the last recording, guard by guard
    """
    settings, output = begin(GUARDS, common, flags)
    selection = common.selection(settings)
    place = place_or_target(target, settings)
    if place is not None:
        flags.refuse_run()
        if rank is None and place.kind != "document":
            check_one_rank(place.location, "guards")
        output.write(
            diagnose_place(place, selection, output.needs, rank=rank, executor=reading.executor())
        )
        return
    flags.refuse((*OF_EXECUTOR, "rank"), without="a recording")
    request = Request.of(spec, Measured(guard_cost=True), target=target)
    with recording_of(request, settings, common) as (recorded, _):
        result = diagnose_recording(recorded.folder, selection, output.needs)
    write_run(output, result)
    finish(recorded, result.diagnosis)
