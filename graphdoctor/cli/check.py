"""``graphdoctor check``: the gate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor.cli.gating import RunOptions, TargetsArgument
from graphdoctor.cli.options import Colour, ColourOption, ShownOptions, with_options
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphdoctor.cli.gating import Chosen, Ran
    from graphdoctor.config import Project
    from graphdoctor.gate.baseline import Baseline
    from graphdoctor.gate.check import Policy
    from graphdoctor.model.check import CheckReport, TargetCheck, UnusedIgnore


class CheckFormat(StrEnum):
    """What the gate's answer can be written as on standard output."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"
    junit = "junit"
    markdown = "markdown"


class FailOnChoice(StrEnum):
    """The least severity of a new finding that fails the gate."""

    error = "error"
    warning = "warning"
    info = "info"
    never = "never"


def _share(value: float | None) -> float | None:
    # NaN is neither too small nor too large.
    if value is not None and not 0 <= value <= 1:
        raise typer.BadParameter(f"{value} is no share from 0 to 1.")
    return value


@with_options
def check(
    shown: ShownOptions,
    run: RunOptions,
    targets: TargetsArgument = None,
    max_breaks: Annotated[
        int | None, typer.Option(help="Fail above so many break sites.", min=0, show_default=False)
    ] = None,
    max_recompiles: Annotated[
        int | None, typer.Option(help="Fail above so many recompiles.", min=0, show_default=False)
    ] = None,
    max_graphs: Annotated[
        int | None, typer.Option(help="Fail above so many graphs.", min=0, show_default=False)
    ] = None,
    min_coverage: Annotated[
        float | None,
        typer.Option(help="Fail below this share of compiled operations, 0 to 1.", show_default=False, callback=_share),
    ] = None,
    fail_on: Annotated[
        FailOnChoice | None,
        typer.Option(help="The least severity of a new finding that fails; by default warning.", show_default=False),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="The baseline file; by default graphdoctor-baseline.json beside pyproject.toml."),
    ] = None,
    is_without_baseline: Annotated[
        bool, typer.Option("--no-baseline", help="Compare with no baseline: every finding is new.")
    ] = False,
    is_files: Annotated[
        bool,
        typer.Option("--files", help="What is named are files that changed: run the configured targets they reach."),
    ] = False,
    format: Annotated[CheckFormat, typer.Option("--format", help="What standard output gets.")] = CheckFormat.text,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", help="FORMAT=FILE: write the result to a file too. Repeatable.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that --output names.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show torch's full words.")] = False,
    color: ColourOption = Colour.auto,
) -> None:
    """Run the configured targets and fail on what the baseline and the budgets do not allow.

    Exits with 0 when all passed, 1 when one failed, and 2 when one could not be run to its end.
    """
    from graphdoctor.cli.gating import choose_targets, policies, reached_targets, run_targets
    from graphdoctor.cli.outputs import check_outputs, parse_outputs, write_outputs
    from graphdoctor.config import load_project

    project = load_project(Path.cwd())
    outputs = parse_outputs(output or ())
    check_outputs(outputs, force=force)
    chosen = reached_targets(project, targets or ()) if is_files else choose_targets(project, targets or ())
    place, known = _baseline(project, baseline, is_without=is_without_baseline)
    judged_by = policies(
        chosen.targets,
        project,
        shown=shown,
        limits={
            "max-breaks": max_breaks,
            "max-recompiles": max_recompiles,
            "max-graphs": max_graphs,
            "min-coverage": min_coverage,
        },
        fail_on=fail_on.value if fail_on else None,
        baseline=known,
    )
    ran = run_targets(chosen.targets, project, run)
    report = _report(ran, chosen, project, judged_by, place if known is not None else None)
    write_outputs(report, outputs, is_quiet=run.quiet)
    _show(report, format, color, is_verbose=verbose)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _baseline(project: Project, asked: Path | None, *, is_without: bool) -> tuple[Path, Baseline | None]:
    from graphdoctor.cli.gating import read_baseline_at

    path = (asked or project.baseline).absolute()
    if is_without:
        if asked is not None:
            raise GraphDoctorError("--baseline and --no-baseline exclude each other.", hint="Give one of them.")
        return path, None
    known = read_baseline_at(path)
    if known is None and asked is not None:
        raise GraphDoctorError(
            f"There is no baseline at {asked}.", hint=f"graphdoctor baseline --baseline {asked} writes one."
        )
    return path, known


def _report(
    ran: Sequence[Ran], chosen: Chosen, project: Project, judged_by: Mapping[str, Policy], baseline: Path | None
) -> CheckReport:
    from graphdoctor import __version__
    from graphdoctor.model.check import CheckReport

    checks = tuple(_judged(found, judged_by[found.target.name]) for found in ran)
    notes = [] if Path.cwd() == project.root else [f"Paths are relative to {project.root}."]
    return CheckReport(
        graphdoctor_version=__version__,
        targets=checks,
        skipped=chosen.skipped,
        unused_ignores=_unused(ran, checks, project),
        baseline=None if baseline is None else str(baseline),
        root=str(project.root),
        notes=tuple(notes),
    )


def _judged(ran: Ran, policy: Policy) -> TargetCheck:
    from graphdoctor.gate.check import check_target, crashed

    name, target = ran.target.name, ran.target.target
    if ran.diagnosis is None:
        error = ran.error or "It could not be run."
        return crashed(name=name, target=target, error=error, hint=ran.hint, diagnosis=None, policy=policy)
    return check_target(ran.diagnosis, name=name, target=target, comments=ran.comments, policy=policy)


def _unused(ran: Sequence[Ran], checks: Sequence[TargetCheck], project: Project) -> tuple[UnusedIgnore, ...]:
    """Judged only where all targets ran to their end: an ignore may be for one of the others."""
    from graphdoctor.cli.gating import path_ignores
    from graphdoctor.gate.ignores import unused_ignores

    names = {check.name for check in checks if check.state != "crashed" and check.error is None}
    if len(names) < len(checks) or not {target.name for target in project.targets} <= names:
        return ()
    runs = [(found.comments, found.diagnosis.findings) for found in ran if found.diagnosis is not None]
    return unused_ignores(runs, path_ignores(project), pyproject="pyproject.toml")


def _show(report: CheckReport, format: CheckFormat, colour: Colour, *, is_verbose: bool) -> None:
    from graphdoctor.cli.outputs import CheckOutput, write_outputs

    if format is not CheckFormat.text:
        write_outputs(report, [CheckOutput(format.value, None)], is_quiet=True)
        return
    from graphdoctor.cli.terminal import stdout_console
    from graphdoctor.render.check import render_check

    render_check(report, stdout_console(colour), is_verbose=is_verbose)
