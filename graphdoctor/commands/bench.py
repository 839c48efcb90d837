"""``graphdoctor bench``: each way to run a target, measured beside eager mode."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import typer

from graphdoctor.commands.named import kept_report, place_or_target
from graphdoctor.commands.options import Given, OutputOptions, TargetOrReportArgument, with_options
from graphdoctor.commands.running import EXIT_FAILED, begin, finish, set_up, tell_place
from graphdoctor.commands.terminal import EXIT_INTERRUPTED
from graphdoctor.facts.bench import BENCH_PARTS, BenchReport
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.trials.launch.ownership import sign
from graphdoctor.trials.launch.recorded import Recorded, new_recording, record_target
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.views.formats import BENCH

_WHAT = "What to measure"


@with_options(formats=BENCH.names, defaults={"backend": "inductor"})
def bench(
    spec: RunSpec,
    common: OutputOptions,
    flags: Given,
    target: TargetOrReportArgument = None,
    variant: list[str] | None = option(
        None,
        "Also measure this variant: mode=reduce-overhead, backend=aot_eager, dynamic=true, "
        "fullgraph=true, option.NAME=VALUE, config.NAME=VALUE, regional, or several of these "
        "separated by spaces. Repeatable.",
        metavar="NAME=VALUE",
    ),
    is_every_mode: bool = option(
        False,
        "Measure every mode, CUDA graphs, and regional compilation, where possible.",
        flag="--all",
        heading=_WHAT,
    ),
    is_cold: bool = option(
        False,
        "Also measure a start with an empty cache, and a restart.",
        flag="--cold",
        heading=_WHAT,
    ),
    has_results: bool = option(
        False,
        "Also compare results with eager mode and with a float64 run.",
        flag="--check-results",
        heading=_WHAT,
    ),
    has_causes: bool = option(
        False,
        "Also measure each variant's kernels, guards and breaks, to show what takes the time.",
        flag="--why",
        heading=_WHAT,
    ),
    is_thorough: bool = option(
        False,
        "All of these, with times as precise as possible: takes minutes.",
        flag="--thorough",
        heading=_WHAT,
    ),
) -> None:
    """Measure the speedup over eager mode.

    Each way to run the target has its own process; their calls are timed in turns.

    Examples:
        graphdoctor bench model.py: the speedup, and when it pays off
        graphdoctor bench model.py --all -o bench.html: every mode, as a page
    """
    from graphdoctor.studies.bench.variants import variants_of

    settings, output = begin(BENCH, common, flags)
    place = place_or_target(target, settings)
    if place is not None:
        flags.refuse_run(*_MEASURED)
        output.write(kept_report(place, BenchReport))
        return
    request = Request.of(spec, target=target)
    is_asked = {"cold": is_cold, "results": has_results, "causes": has_causes}
    parts = tuple(part for part in BENCH_PARTS if is_thorough or is_asked[part])
    ways = partial(variants_of, variant or (), request.spec, is_every_mode)
    ways()  # what can't be read is refused before anything runs
    from graphdoctor.studies.bench.bench import BenchPlan
    from graphdoctor.studies.bench.bench import bench as measure

    plan = BenchPlan(ways, parts)
    diagnosis = None
    with set_up(settings, common, is_warm=True) as setup:
        if plan.needs_recording:
            recorded = record_target(
                replace(request, measured=Measured(coverage=True)).quick, settings.store, setup
            )
            diagnosis = diagnose_recording(recorded.folder).diagnosis
            if recorded.exit.reason != "finished":
                finish(recorded, diagnosis)
            made = recorded.made
        else:
            made = new_recording(request, settings.store, setup)
        report, diagnosis = measure(request, made.path, diagnosis, setup, plan)
        sign(made.path)
    ended = diagnosis.recording.exit
    has_answer = report.verdict.best is not None or report.is_interrupted
    if not has_answer and ended.reason != "finished":
        finish(Recorded(made, ended), diagnosis)
    output.write(report)
    tell_place(made)
    if report.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if report.verdict.best is None:
        raise typer.Exit(EXIT_FAILED)


_MEASURED = ("variant", "is_every_mode", "is_cold", "has_results", "has_causes", "is_thorough")
"""Parameters that say what to measure."""
