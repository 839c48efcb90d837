"""``graphdoctor accuracy``: whether compiled code computes what eager mode does."""

from __future__ import annotations

import typer

from graphdoctor.commands.named import kept_report, place_or_target
from graphdoctor.commands.options import Given, OutputOptions, TargetOrReportArgument, with_options
from graphdoctor.commands.running import EXIT_FAILED, begin, finish, recording_of, tell_place
from graphdoctor.commands.terminal import EXIT_INTERRUPTED
from graphdoctor.facts.accuracy import AccuracyReport
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.studies.documents import ACCURACY
from graphdoctor.trials.launch.request import Request

_EXIT_DIFFERENT = 1


@with_options(formats=ACCURACY.names, defaults={"backend": "inductor"})
def accuracy(
    spec: RunSpec,
    common: OutputOptions,
    flags: Given,
    target: TargetOrReportArgument = None,
    budget: float = option(
        300.0, "Look into a difference for this many seconds.", metavar="SECONDS"
    ),
    strides: bool = option(False, "Call results different whose strides alone differ."),
    other_python: list[str] | None = option(
        None,
        "Where results differ, also compare them with the torch of this interpreter. Repeatable.",
        flag="--other-python",
        metavar="PATH",
    ),
) -> None:
    """Compare results with eager mode, and find the operation that differs.

    Says same bits, rounding, different or unknown. Exit status 1: different; 2: unknown.

    Examples:
        graphdoctor accuracy model.py: outputs, gradients and state of each call
        graphdoctor accuracy model.py --backward: a training step
    """
    settings, output = begin(ACCURACY, common, flags)
    place = place_or_target(target, settings)
    if place is not None:
        flags.refuse_run("budget", "strides", "other_python")
        output.write(report := kept_report(place, AccuracyReport))
        _end(report)
        return
    request = Request.of(spec, target=target)
    with recording_of(request.quick, settings, common, is_warm=True) as (recorded, setup):
        diagnosis = diagnose_recording(recorded.folder).diagnosis
        has_raised = recorded.exit.reason == "error" and bool(diagnosis.recording.calls)
        if recorded.exit.reason != "finished" and not has_raised:
            finish(recorded, diagnosis)
        # Not earlier: the recorded run begins sooner.
        from graphdoctor.studies.accuracy.accuracy import compare

        report = compare(
            request,
            recorded.folder,
            diagnosis,
            setup,
            budget_s=budget,
            others=other_python or (),
            counts_strides=strides,
        )
    output.write(report)
    tell_place(recorded.made)
    _end(report)


def _end(report: AccuracyReport) -> None:
    if report.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if report.verdict == "different":
        raise typer.Exit(_EXIT_DIFFERENT)
    if report.verdict == "unknown":
        raise typer.Exit(EXIT_FAILED)
