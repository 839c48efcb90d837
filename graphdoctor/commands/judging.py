"""What findings are judged by, and the judgement: options, then a target's settings, then the
project's, beside a baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from graphdoctor.commands.gate_targets import ChosenTargets
from graphdoctor.commands.options import ShownOptions
from graphdoctor.commands.settings import GateTarget, Project, Settings, repository_of
from graphdoctor.commands.target_runs import TargetRun
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import BudgetName, CheckReport, TargetCheck, UnusedIgnore
from graphdoctor.facts.spec import FailOn, RunSpec
from graphdoctor.rules.diagnosis.selection import Selection, code_prefixes
from graphdoctor.rules.gate.baseline import Baseline, read_baseline
from graphdoctor.rules.gate.check import Policy, check_target
from graphdoctor.rules.gate.ignores import PathIgnore, unused_ignores
from graphdoctor.version import __version__


def read_baseline_at(path: Path) -> Baseline | None:
    """Return the baseline file; None where there is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.strerror}.") from error
    return read_baseline(content, str(path))


def known_baseline(
    project: Project, asked: Path | None, *, is_without: bool
) -> tuple[Path, Baseline | None]:
    """Return the baseline to compare with: that asked for, else the project's, which may not
    exist.
    """
    path = (asked or project.baseline).absolute()
    if is_without:
        if asked is not None:
            raise GraphDoctorError(
                "--baseline and --no-baseline exclude each other.", hint="Give one of them."
            )
        return path, None
    baseline = read_baseline_at(path)
    if baseline is None and asked is not None:
        raise GraphDoctorError(
            f"There is no baseline at {asked}.",
            hint=f"graphdoctor baseline --baseline {asked} writes one.",
        )
    return path, baseline


def policies(
    targets: Sequence[GateTarget],
    project: Project,
    *,
    shown: ShownOptions,
    limits: Mapping[BudgetName, float] = {},
    fail_on: FailOn | None = None,
    baseline: Baseline | None = None,
) -> dict[str, Policy]:
    """Decide what each target is judged by: options, then the target, then the project.

    Before anything runs, so that a wrong code costs nothing.
    """
    paths = path_ignores(project)
    return {
        target.name: Policy(
            fail_on=fail_on or target.fail_on or project.settings.fail_on,
            limits={**target.limits, **limits},
            selection=_selection(target, project.settings, shown),
            paths=paths,
            baseline=baseline,
        )
        for target in targets
    }


def policies_without_runs(
    project: Project, baseline: Path | None, *, shown: ShownOptions, is_without: bool = False
) -> list[tuple[str, Policy]]:
    """Decide what each target's text is judged by where none is run; a project without targets has
    the policy that one would have.
    """
    targets = project.targets or (GateTarget(RunSpec(target=""), name=""),)
    _, findings = known_baseline(project, baseline, is_without=is_without)
    judged_by = policies(targets, project, shown=shown, baseline=findings)
    return [(target.target, judged_by[target.name]) for target in targets]


def _selection(target: GateTarget, settings: Settings, shown: ShownOptions) -> Selection:
    ruling = replace(
        settings,
        select=settings.select if target.select is None else target.select,
        ignore=settings.ignore if target.ignore is None else target.ignore,
    )
    return shown.selection(ruling)


def path_ignores(project: Project) -> tuple[PathIgnore, ...]:
    """``per-path-ignores``, their codes checked."""
    return tuple(
        PathIgnore(pattern, code_prefixes(codes))
        for pattern, codes in project.settings.per_path_ignores
    )


def judge(
    ran: Sequence[TargetRun],
    chosen: ChosenTargets,
    project: Project,
    judged_by: Mapping[str, Policy],
    baseline: Path | None,
) -> CheckReport:
    """Judge the runs."""
    checks = tuple(_judged(run, judged_by[run.target.name]) for run in ran)
    notes = [] if Path.cwd() == project.root else [f"Paths are relative to {project.root}."]
    return CheckReport(
        graphdoctor_version=__version__,
        targets=checks,
        skipped=chosen.skipped,
        unused_ignores=_unused(ran, checks, project),
        baseline=None if baseline is None else str(baseline),
        root=str(project.root),
        repository=None if (repository := repository_of(project.root)) is None else str(repository),
        notes=tuple(notes),
    )


def _judged(ran: TargetRun, policy: Policy) -> TargetCheck:
    name, target = ran.target.name, ran.target.target
    if ran.diagnosis is not None:
        return check_target(
            ran.diagnosis, name=name, target=target, comments=ran.comments, policy=policy
        )
    return TargetCheck(
        name=name,
        target=target,
        state="crashed",
        error=ran.error,
        hint=ran.hint,
        fail_on=policy.fail_on,
    )


def _unused(
    ran: Sequence[TargetRun], checks: Sequence[TargetCheck], project: Project
) -> tuple[UnusedIgnore, ...]:
    """Judged only where all targets ran to their end: an ignore may be for one of the others."""
    names = {check.name for check in checks if check.state != "crashed" and check.error is None}
    if len(names) < len(checks) or not {target.name for target in project.targets} <= names:
        return ()
    runs = [(run.comments, run.diagnosis.findings) for run in ran if run.diagnosis is not None]
    return unused_ignores(runs, path_ignores(project), pyproject="pyproject.toml")
