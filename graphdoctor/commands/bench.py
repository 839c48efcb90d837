"""``graphdoctor bench``: each way to run a target, measured beside eager mode."""

from __future__ import annotations

from functools import partial

import typer

from graphdoctor.commands.named import kept_report, place_or_target
from graphdoctor.commands.options import Given, OutputOptions, TargetOrReportArgument, with_options
from graphdoctor.commands.running import EXIT_FAILED, begin, finish, recording_of, tell_place
from graphdoctor.facts.bench import BenchReport
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.probe.wire import BENCH_FILE
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.views.formats import BENCH


@with_options(formats=BENCH.names, defaults={"backend": "inductor"})
def bench(
    spec: RunSpec,
    common: OutputOptions,
    given: Given,
    target: TargetOrReportArgument = None,
    variant: list[str] | None = option(
        None,
        "Also measure this way to run it: mode=reduce-overhead, backend=aot_eager, dynamic=true, "
        "fullgraph=true, option.NAME=VALUE, config.NAME=VALUE, regional; or several of these, with "
        "spaces between. Repeatable.",
        metavar="NAME=VALUE",
    ),
    is_every_mode: bool = option(
        False,
        "Measure every mode, CUDA graphs, and each repeated block compiled by itself, where possible.",
        flag="--all",
        heading="What to measure",
    ),
    sweep: str | None = option(
        None,
        "Measure with several sizes: x.shape[0]=1,8,32; dims that change together: x.shape[0],y.shape[0]=1,8.",
        metavar="SIZE=N,N",
    ),
    is_minified: bool = option(
        False, "Let torch make the smallest program of a variant that fails or is wrong.", flag="--minify"
    ),
) -> None:
    """Measure what torch.compile is worth, beside eager mode.

    Each way to run the target has a process of its own; their calls are timed in turns.

    Examples:
        graphdoctor bench model.py: did it pay, and from which call on
        graphdoctor bench model.py --all -o bench.html: every mode, as a page
    """
    from graphdoctor.studies.bench.variants import parse_sweep, variants_of

    settings, output = begin(BENCH, common, given)
    place = place_or_target(target, settings)
    if place is not None:
        given.refuse_run(*_MEASURED)
        output.write(kept_report(place, BenchReport, file=BENCH_FILE, command="bench", has=("variants", "verdict")))
        return
    request = Request.of(spec, Measured(coverage=True), target=target)
    ways = partial(variants_of, variant or (), request.spec, is_all=is_every_mode)
    ways()  # what can't be read is refused before anything runs
    sizes = None if sweep is None else parse_sweep(sweep)
    with recording_of(request.quick, settings, common, is_warm=True) as (recorded, setup):
        diagnosis = diagnose_recording(recorded.folder).diagnosis
        if recorded.exit.reason != "finished":
            finish(recorded, diagnosis)
        # Not earlier: the recorded run begins sooner.
        from graphdoctor.studies.bench.bench import bench as benched

        variants = ways(has_blocks=bool(diagnosis.recording.target.blocks))
        report = benched(request, recorded.folder, diagnosis, setup, variants, sweep=sizes, is_minified=is_minified)
    output.write(report)
    tell_place(recorded.made)
    if report.verdict.best is None:
        raise typer.Exit(EXIT_FAILED)


_MEASURED = ("variant", "is_every_mode", "sweep", "is_minified")
"""Parameters that say what to measure."""
