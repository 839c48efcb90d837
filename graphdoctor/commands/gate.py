"""``graphdoctor check`` and ``graphdoctor baseline``: the gate."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.judging import (
    choose_targets,
    judge,
    known_baseline,
    policies,
    reached_targets,
    read_baseline_at,
)
from graphdoctor.commands.options import (
    BASELINE,
    COLOR,
    FAIL_ON,
    FORMAT,
    NO_BASELINE,
    VERBOSE,
    Given,
    ProcessOptions,
    ShownOptions,
    argument,
    with_options,
)
from graphdoctor.commands.output import (
    Output,
    check_outputs,
    check_writable,
    parse_outputs,
    write_content,
    write_outputs,
)
from graphdoctor.commands.running import this_project
from graphdoctor.commands.settings import Budgets, ruling_variables
from graphdoctor.commands.target_runs import TargetRun, run_all
from graphdoctor.commands.terminal import Color, complain, say, say_result
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import BaselineEntry
from graphdoctor.facts.spec import FailOn, option
from graphdoctor.rules.gate.baseline import (
    Baseline,
    BaselineUpdate,
    TargetFindings,
    release,
    run_of,
    updated,
    write_baseline,
)
from graphdoctor.rules.gate.check import Policy, empty_text, known_run, sort_findings, trouble_of
from graphdoctor.views.formats import CHECK, RenderOptions
from graphdoctor.wording import counted

TargetsArgument = Annotated[
    list[str] | None,
    argument(
        "Names of targets in [tool.graphdoctor], or targets as for explain. By default, all that"
        " are configured."
    ),
]


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
        "The arguments are changed files: run the configured targets that they reach.",
        flag="--files",
    ),
    format: str = FORMAT,
    output: list[str] | None = option(
        None,
        "Also write the result to this file, in this format. Repeatable.",
        metavar="FORMAT=FILE",
    ),
    force: bool = option(False, "Overwrite files that --output names."),
    verbose: bool = VERBOSE,
    color: Color = COLOR,
) -> None:
    """Run the configured targets and fail on new findings or exceeded budgets.

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
    choose = reached_targets if is_files else choose_targets
    chosen = choose(project, targets or ())
    # Before anything runs, so that a wrong code costs nothing.
    path, findings = known_baseline(
        project, baseline, targets=chosen.targets, is_without=is_without_baseline
    )
    judged_by = policies(
        chosen.targets,
        project,
        shown=shown,
        limits=budgets.limits,
        fail_on=fail_on,
        baseline=findings,
    )
    ran = run_all(chosen.targets, project, run)
    report = judge(ran, chosen, project, judged_by, None if findings is None else path)
    report = report.replace(variables=ruling_variables(given))
    write_outputs(report, outputs)
    shown_as.write(report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _troubles(
    runs: Sequence[TargetRun], before: Baseline | None, *, is_empty_allowed: bool
) -> Iterator[tuple[str, str | None]]:
    """Of targets that give nothing to write down, because they ended early or compiled nothing:
    why, and a hint.
    """
    for run in runs:
        name = run.target.name
        if run.diagnosis is None:
            yield f"{name}: {run.error}", run.hint
        elif (trouble := trouble_of(run.diagnosis)) is not None:
            yield f"{name}: {trouble}", run.diagnosis.recording.exit.hint
        elif not is_empty_allowed and (
            empty := empty_text(run.diagnosis, known_run(before, name, run.diagnosis))
        ):
            yield f"{name}: {empty}", "--allow-empty writes it down nevertheless."


def _found(runs: Sequence[TargetRun], judged_by: Mapping[str, Policy]) -> dict[str, TargetFindings]:
    return {
        run.target.name: TargetFindings(
            release(run.diagnosis.recording.environment.torch or ""),
            sort_findings(run.diagnosis, run.comments, judged_by[run.target.name])[0],
            run_of(run.diagnosis),
        )
        for run in runs
        if run.diagnosis is not None
    }


@with_options
def baseline(
    run: ProcessOptions,
    targets: TargetsArgument = None,
    is_update: bool = option(
        False,
        "Update an existing file: replace the findings of the targets that run, for the torch that"
        " runs; drop targets that are no longer configured; keep everything else.",
        flag="--update",
    ),
    is_empty_allowed: bool = option(
        False,
        "Also write down a target in which torch compiled nothing: its findings and graphs are then"
        " gone.",
        flag="--allow-empty",
    ),
    path: Path | None = option(
        None,
        "The file. By default, graphdoctor-baseline.json beside pyproject.toml.",
        flag="--baseline",
    ),
) -> None:
    """Run the configured targets and allow the findings they have.

    They go to a file that check compares with. Commit the file and review its changes like code.

    Nothing is written if a target can't be run to its end, or if torch compiled nothing in it.

    Examples:
        graphdoctor baseline: allow what is there now
        graphdoctor baseline --update: after something was fixed
    """
    project = this_project(run.recordings)
    file = (path or project.baseline).absolute()
    if file.exists() and not is_update:
        raise GraphDoctorError(
            f"{file} exists.",
            hint="graphdoctor baseline --update brings it up to date and says what changed.",
        )
    check_writable(file, force=True)
    chosen = choose_targets(project, targets or ())
    before = read_baseline_at(file, (*project.targets, *chosen.targets))
    judged_by = policies(chosen.targets, project, shown=ShownOptions())
    runs = run_all(chosen.targets, project, run)
    if troubles := list(_troubles(runs, before, is_empty_allowed=is_empty_allowed)):
        for trouble in troubles:
            complain(*trouble)
        raise GraphDoctorError(
            f"{file} was not written: {len(troubles)} of {len(runs)} targets can't be written down."
        )
    is_whole = chosen.targets == project.targets and not chosen.skipped
    update = updated(
        before or Baseline(),
        _found(runs, judged_by),
        configured=[target.name for target in project.targets] if is_whole else None,
    )
    write_content(write_baseline(update.baseline), file, is_quiet=run.quiet)
    given = [*(targets or ()), *([] if path is None else ["--baseline", str(path)])]
    _show(update, shlex.join(("graphdoctor", "check", *given)))


def _show(update: BaselineUpdate, then: str) -> None:
    from graphdoctor.views.annotations import run_changes

    lines = []
    for name, added in update.added.items():
        dropped = update.dropped[name]
        lines.append(f"{name}: {counted(len(added), 'finding')} added, {len(dropped)} dropped")
        lines += [
            f"  {text}" for text in run_changes(update.before.get(name), update.found[name].run)
        ]
        lines += [f"  + {_entry_text(entry)}" for entry in added]
        lines += [f"  - {_entry_text(entry)}" for entry in dropped]
    lines += [f"{name}: dropped, as it is no longer configured" for name in update.dropped_targets]
    say_result(*lines)
    say(f"Next: {then}")


def _entry_text(entry: BaselineEntry) -> str:
    return f"{entry.code} {entry.file} {entry.function}  {entry.text or entry.message}"
