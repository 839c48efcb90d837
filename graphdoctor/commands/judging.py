"""The targets that a gate runs, what their findings are judged by, and the judgement: options, then
a target's settings, then the project's, beside a baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoctor.commands.options import ShownOptions
from graphdoctor.commands.settings import GateTarget, Project, Settings, repository_of
from graphdoctor.commands.target_runs import TargetRun
from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.facts.check import BudgetName, CheckReport, TargetCheck, UnusedIgnore
from graphdoctor.facts.spec import FailOn, RunSpec
from graphdoctor.rules.diagnosis.selection import Selection, code_prefixes
from graphdoctor.rules.gate.baseline import Baseline, module_of, read_baseline
from graphdoctor.rules.gate.check import Policy, check_target
from graphdoctor.rules.gate.ignores import PathIgnore, unused_ignores
from graphdoctor.rules.gate.reach import select_targets
from graphdoctor.trials.launch.discover import discover
from graphdoctor.version import __version__
from graphdoctor.wording import nearest


@dataclass(frozen=True)
class ChosenTargets:
    """Which targets are run."""

    targets: tuple[GateTarget, ...]
    skipped: tuple[str, ...] = ()


def choose_targets(project: Project, asked: Sequence[str]) -> ChosenTargets:
    """Return the targets to run: those asked for, by name or by text, configured or not, else all
    that are configured.
    """
    if not asked:
        if not project.targets:
            raise _no_targets(project)
        return ChosenTargets(project.targets)
    configured = {target.name: target for target in project.targets}
    chosen = {}
    for text in asked:
        name = _name_from(project.root, text)
        module = module_of(name)
        targets = [target for target in project.targets if module_of(target.target) == module]
        if text in configured:
            targets = [configured[text]]
        for target in targets or [_named_by_text(project, text, name)]:
            chosen[target.name] = target
    return ChosenTargets(tuple(chosen.values()))


def reached_targets(project: Project, files: Sequence[str]) -> ChosenTargets:
    """Return the configured targets that given files can reach."""
    chosen = choose_targets(project, ())
    named = {target.name: (target.target,) for target in chosen.targets}
    to_run = select_targets(named, [Path.cwd() / file for file in files], project.root)
    return ChosenTargets(
        tuple(target for target in chosen.targets if target.name in to_run),
        tuple(name for name in named if name not in to_run),
    )


def _named_by_text(project: Project, text: str, name: str) -> GateTarget:
    hint = nearest(text, [target.name for target in project.targets])
    if hint and text.isidentifier() and not Path(text).exists():
        raise GraphDoctorError(f"There is no target {text!r} in {project.pyproject}.", hint=hint)
    return GateTarget(RunSpec(target=text), name=name, folder=Path.cwd())


def _name_from(root: Path, text: str) -> str:
    """Return a target's text as it would be written in the project's folder: the baseline knows it
    by that everywhere.
    """
    file, colon, name = text.rpartition(":")
    if not colon or Path(text).is_file():
        file, name = text, ""
    path = Path.cwd() / file
    if not path.is_file() or not path.is_relative_to(root):
        return text
    return path.relative_to(root).as_posix() + (f":{name}" if name else "")


def _no_targets(project: Project) -> GraphDoctorError:
    where = project.pyproject or project.root / "pyproject.toml"
    ready = discover(project.root, limit=1).ready
    example = ready[0].target if ready else "model.py"
    return GraphDoctorError(
        f"There is nothing to check: {where} names no target.",
        hint=f"graphdoctor init looks for targets, or add\n    [[tool.graphdoctor.targets]]\n"
        f'    target = "{example}"\nor name one: graphdoctor check {example}',
    )


def read_baseline_at(path: Path, targets: Iterable[GateTarget]) -> Baseline | None:
    """Return the baseline file, with these targets under their names; None where there is none."""
    if not path.exists():
        return None
    with os_errors(path, "read"):
        content = path.read_bytes()
    baseline = read_baseline(content, str(path))
    return baseline.named({target.name: target.target for target in targets})


def known_baseline(
    project: Project, asked: Path | None, *, targets: Iterable[GateTarget] = (), is_without: bool
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
    baseline = read_baseline_at(path, (*project.targets, *targets))
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
