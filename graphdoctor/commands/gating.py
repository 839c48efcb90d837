"""The gate, for check, baseline, lint and init: which targets to run, one run each, and what they
are judged by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from graphdoctor.commands.gate_runs import Ran
from graphdoctor.commands.options import ShownOptions, argument
from graphdoctor.commands.running import project_in
from graphdoctor.commands.settings import (
    GateTarget,
    Project,
    Settings,
    project_folder,
    projects_below,
    repository_of,
)
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import BudgetName, CheckReport, TargetCheck, UnusedIgnore, rebased
from graphdoctor.facts.spec import FailOn, RunSpec
from graphdoctor.rules.diagnosis.selection import Selection, code_prefixes
from graphdoctor.rules.gate.baseline import Baseline, read_baseline
from graphdoctor.rules.gate.check import Policy, check_target
from graphdoctor.rules.gate.ignores import PathIgnore, unused_ignores
from graphdoctor.rules.gate.reach import select_targets
from graphdoctor.trials.launch.discover import discover
from graphdoctor.version import __version__
from graphdoctor.wording import nearest


@dataclass(frozen=True)
class Chosen:
    """Which targets are run."""

    targets: tuple[GateTarget, ...]
    skipped: tuple[str, ...] = ()


def choose_targets(project: Project, asked: Sequence[str]) -> Chosen:
    """The targets to run: those asked for, by name or by text, configured or not, else all that are
    configured.
    """
    if not asked:
        if not project.targets:
            raise _no_targets(project)
        return Chosen(project.targets)
    configured = {target.name: target for target in project.targets}
    chosen: dict[str, GateTarget] = {}
    for text in asked:
        name = _name_from(project.root, text)
        found = (
            [configured[text]]
            if text in configured
            else [item for item in project.targets if item.target == name]
        )
        chosen.update((item.name, item) for item in found or [_named_by_text(project, text, name)])
    return Chosen(tuple(chosen.values()))


def reached_targets(project: Project, files: Sequence[str]) -> Chosen:
    """The configured targets that given files can reach."""
    chosen = choose_targets(project, ())
    named = {target.name: (target.target,) for target in chosen.targets}
    to_run = select_targets(named, [Path.cwd() / file for file in files], project.root)
    return Chosen(
        tuple(target for target in chosen.targets if target.name in to_run),
        tuple(name for name in named if name not in to_run),
    )


def reached_projects(
    own: Project, files: Sequence[str], recordings: Path | None
) -> list[tuple[Project, Chosen]]:
    """The projects whose targets given files can reach: the working directory's, those below it,
    and each file's.
    """
    owners = {file: project_folder((Path.cwd() / file).parent) for file in files}
    folders = dict.fromkeys((own.root, *projects_below(Path.cwd()), *filter(None, owners.values())))
    projects = [own if folder == own.root else project_in(folder, recordings) for folder in folders]
    found = []
    for project in projects:
        if project.targets:
            # Another project's data is its own business; its modules may be imported.
            mine = [
                file
                for file, owner in owners.items()
                if owner in (None, project.root) or file.endswith(".py")
            ]
            found.append((project, reached_targets(project, mine)))
    if not found:
        raise _no_targets(own)
    return found


def merged_report(reports: Sequence[CheckReport], root: Path) -> CheckReport:
    """One report of several projects."""
    if len(reports) == 1:
        return reports[0]
    moved = [(_prefix(report, root), rebased(report, root)) for report in reports]
    baselines = [report.baseline for report in reports if report.baseline is not None]
    is_changed = any(
        target.failing or target.fixed for report in reports for target in report.targets
    )
    note = "Each project has a baseline of its own: run graphdoctor baseline in its folder."
    return reports[0].replace(
        targets=tuple(
            target.replace(name=prefix + target.name)
            for prefix, one in moved
            for target in one.targets
        ),
        skipped=tuple(prefix + name for prefix, one in moved for name in one.skipped),
        unused_ignores=tuple(unused for _, one in moved for unused in one.unused_ignores),
        baseline=", ".join(baselines) or None,
        root=str(root),
        notes=(note,) if is_changed else (),
    )


def _prefix(report: CheckReport, root: Path) -> str:
    """What tells a project's targets from another's: its folder."""
    folder = Path(report.root or root)
    return f"{folder.relative_to(root)}: " if folder != root and folder.is_relative_to(root) else ""


def _named_by_text(project: Project, text: str, name: str) -> GateTarget:
    hint = nearest(text, [target.name for target in project.targets])
    if hint and text.isidentifier() and not Path(text).exists():
        raise GraphDoctorError(f"There is no target {text!r} in {project.pyproject}.", hint=hint)
    return GateTarget(RunSpec(target=text), name=name, folder=Path.cwd())


def _name_from(root: Path, text: str) -> str:
    """A target's text as it would be written in the project's folder: the baseline knows it by that
    everywhere.
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
    found = discover(project.root, limit=1).ready
    example = found[0].target if found else "model.py"
    return GraphDoctorError(
        f"There is nothing to check: {where} names no target.",
        hint=f"graphdoctor init looks for targets, or add\n    [[tool.graphdoctor.targets]]\n"
        f'    target = "{example}"\nor name one: graphdoctor check {example}',
    )


def read_baseline_at(path: Path) -> Baseline | None:
    """The baseline file; None where there is none."""
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
    """The baseline to compare with: that asked for, else the project's, which may not exist."""
    path = (asked or project.baseline).absolute()
    if is_without:
        if asked is not None:
            raise GraphDoctorError(
                "--baseline and --no-baseline exclude each other.", hint="Give one of them."
            )
        return path, None
    known = read_baseline_at(path)
    if known is None and asked is not None:
        raise GraphDoctorError(
            f"There is no baseline at {asked}.",
            hint=f"graphdoctor baseline --baseline {asked} writes one.",
        )
    return path, known


def policies(
    targets: Sequence[GateTarget],
    project: Project,
    *,
    shown: ShownOptions,
    limits: Mapping[BudgetName, float] = {},
    fail_on: FailOn | None = None,
    baseline: Baseline | None = None,
) -> dict[str, Policy]:
    """What each target is judged by, by its name: what is asked for, then the target's own, then
    the project's.

    Decided before anything runs, so that a wrong code costs nothing.
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


def _selection(target: GateTarget, settings: Settings, shown: ShownOptions) -> Selection:
    own = replace(
        settings,
        select=settings.select if target.select is None else target.select,
        ignore=settings.ignore if target.ignore is None else target.ignore,
    )
    return shown.selection(own)


def path_ignores(project: Project) -> tuple[PathIgnore, ...]:
    """``per-path-ignores``, their codes checked."""
    return tuple(
        PathIgnore(pattern, code_prefixes(codes))
        for pattern, codes in project.settings.per_path_ignores
    )


def judge(
    ran: Sequence[Ran],
    chosen: Chosen,
    project: Project,
    judged_by: Mapping[str, Policy],
    baseline: Path | None,
) -> CheckReport:
    """What the gate says."""
    checks = tuple(_judged(found, judged_by[found.target.name]) for found in ran)
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


def _judged(ran: Ran, policy: Policy) -> TargetCheck:
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
    ran: Sequence[Ran], checks: Sequence[TargetCheck], project: Project
) -> tuple[UnusedIgnore, ...]:
    """Judged only where all targets ran to their end: an ignore may be for one of the others."""
    names = {check.name for check in checks if check.state != "crashed" and check.error is None}
    if len(names) < len(checks) or not {target.name for target in project.targets} <= names:
        return ()
    runs = [
        (found.comments, found.diagnosis.findings) for found in ran if found.diagnosis is not None
    ]
    return unused_ignores(runs, path_ignores(project), pyproject="pyproject.toml")


TargetsArgument = Annotated[
    list[str] | None,
    argument(
        "Names of targets in [tool.graphdoctor], or targets as for explain. By default, all that are configured."
    ),
]
