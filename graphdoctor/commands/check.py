"""``graphdoctor check``: the gate."""

from __future__ import annotations

from pathlib import Path

import typer

from graphdoctor.commands.gate_runs import run_all
from graphdoctor.commands.gating import (
    TargetsArgument,
    choose_targets,
    judge,
    known_baseline,
    merged_report,
    policies,
    reached_projects,
)
from graphdoctor.commands.options import (
    BASELINE,
    COLOR,
    FAIL_ON,
    NO_BASELINE,
    VERBOSE,
    Color,
    Given,
    ProcessOptions,
    ShownOptions,
    with_options,
)
from graphdoctor.commands.output import Output, check_outputs, parse_outputs, write_outputs
from graphdoctor.commands.running import this_project
from graphdoctor.commands.settings import Budgets, ruling_variables
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import FailOn, option
from graphdoctor.views.formats import CHECK, RenderOptions


@with_options(formats=CHECK.names)
def check(
    shown: ShownOptions,
    run: ProcessOptions,
    budgets: Budgets,
    given: Given,
    targets: TargetsArgument = None,
    fail_on: FailOn | None = FAIL_ON,
    baseline: Path | None = BASELINE,
    is_without_baseline: bool = NO_BASELINE,
    is_files: bool = option(
        False,
        "The arguments are changed files: run the configured targets that they reach, those of each project "
        "with its own pyproject.toml and baseline.",
        flag="--files",
    ),
    format: str = option(
        CHECK.names[0], "What to write to standard output: {formats}.", metavar="FORMAT"
    ),
    output: list[str] | None = option(
        None, "FORMAT=FILE: also write the result to a file. Repeatable."
    ),
    force: bool = option(False, "Overwrite files that --output names."),
    verbose: bool = VERBOSE,
    color: Color = COLOR,
) -> None:
    """Run the configured targets and fail on what isn't allowed.

    The baseline and the budgets say what is allowed.

    Exits with 0 if all passed, 1 if one failed, and 2 if one could not be run to its end.

    Examples:
        graphdoctor check: every target in pyproject.toml
        graphdoctor check model.py --max-breaks 0: one target, one limit
    """
    if not output:
        given.refuse(("force",), without="--output")
    project = this_project(run.recordings)
    outputs = parse_outputs(output or (), is_quiet=run.quiet)
    check_outputs(outputs, force=force)
    shown_as = Output(
        CHECK.named(format), None, RenderOptions(Path.cwd(), is_verbose=verbose), color
    )
    if not shown_as.is_text:
        given.refuse(("verbose",), without="--format text")
    if is_files:
        chosen = reached_projects(project, targets or (), run.recordings)
    else:
        chosen = [(project, choose_targets(project, targets or ()))]
    if baseline is not None and len(chosen) > 1:
        folders = ", ".join(str(one.root) for one, _ in chosen)
        raise GraphDoctorError(
            "--baseline is of one project.", hint=f"These files reach several: {folders}."
        )
    waiting = []
    # All of them before anything runs, so that a wrong code costs nothing.
    for one, reached in chosen:
        place, known = known_baseline(one, baseline, is_without=is_without_baseline)
        judged_by = policies(
            reached.targets,
            one,
            shown=shown,
            limits=budgets.limits,
            fail_on=fail_on,
            baseline=known,
        )
        waiting.append((reached, one, judged_by, place if known is not None else None))
    reports = [
        judge(run_all(reached.targets, one, run), reached, one, policy, place)
        for reached, one, policy, place in waiting
    ]
    report = merged_report(reports, Path.cwd()).replace(variables=ruling_variables(given))
    write_outputs(report, outputs)
    shown_as.write(report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
