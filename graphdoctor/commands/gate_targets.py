"""The targets that a gate runs: those that are asked for, or those that changed files reach; and
the one report of several projects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.commands.running import project_in
from graphdoctor.commands.settings import GateTarget, Project, project_folder, projects_below
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import CheckReport, rebased
from graphdoctor.facts.spec import RunSpec
from graphdoctor.rules.gate.reach import select_targets
from graphdoctor.trials.launch.discover import discover
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
        targets = [target for target in project.targets if target.target == name]
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


def reached_projects(
    own: Project, files: Sequence[str], recordings: Path | None
) -> list[tuple[Project, ChosenTargets]]:
    """Return the projects whose targets given files can reach: the working directory's, those below
    it, and each file's.
    """
    owners = {file: project_folder((Path.cwd() / file).parent) for file in files}
    folders = dict.fromkeys((own.root, *projects_below(Path.cwd()), *filter(None, owners.values())))
    projects = [own if folder == own.root else project_in(folder, recordings) for folder in folders]
    reached = []
    for project in projects:
        if project.targets:
            # Another project's data is its own business; its modules may be imported.
            readable = [
                file
                for file, owner in owners.items()
                if owner in (None, project.root) or file.endswith(".py")
            ]
            reached.append((project, reached_targets(project, readable)))
    if not reached:
        raise _no_targets(own)
    return reached


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
            for prefix, report in moved
            for target in report.targets
        ),
        skipped=tuple(prefix + name for prefix, report in moved for name in report.skipped),
        unused_ignores=tuple(unused for _, report in moved for unused in report.unused_ignores),
        baseline=", ".join(baselines) or None,
        root=str(root),
        notes=(note,) if is_changed else (),
    )


def _prefix(report: CheckReport, root: Path) -> str:
    folder = Path(report.root or root)
    return f"{folder.relative_to(root)}: " if folder != root and folder.is_relative_to(root) else ""


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
