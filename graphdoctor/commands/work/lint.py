"""Lints files, each by the policies of its project, with what the last recording saw compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.commands.settings import GateTarget, load_project, project_folder
from graphdoctor.commands.work.check import Demands, policies, read_baseline_at
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec
from graphdoctor.fixes.lint import LintReport, Recorded, lint_files, python_files, recorded_in

if TYPE_CHECKING:
    from graphdoctor.commands.settings import Project, Settings
    from graphdoctor.rules.gate.check import Policy


@dataclass(frozen=True)
class Asked:
    """What was asked for in place of the configuration.

    Args:
        select: Code prefixes to report; empty for those of each project, as for the next.
        baseline: The baseline file; None for that of each project.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    baseline: Path | None = None
    is_baseline_used: bool = True
    is_recording_used: bool = True


def lint(named: Sequence[Path], settings: Settings, asked: Asked = Asked()) -> LintReport:
    """Lint files and folders."""
    place, recorded = _last_recording(settings) if asked.is_recording_used and named else (None, Recorded())
    reports = [
        lint_files(
            paths,
            root=project.root,
            version=__version__,
            shown_from=Path.cwd(),
            policies=_policies(project, asked),
            recorded=recorded,
        )
        for project, paths in _by_project([path for each in named for path in python_files(each)])
    ]
    return _merged(reports).model_copy(update={"recording": place})


def _by_project(paths: Sequence[Path]) -> list[tuple[Project, list[Path]]]:
    """Each project with its files, in the order of the files."""
    projects: dict[Path, Project] = {}
    by_folder: dict[Path, Path] = {}
    files: dict[Path, list[Path]] = {}
    for path in paths:
        folder = path.absolute().parent
        if folder not in by_folder:
            by_folder[folder] = _home(folder)
        home = by_folder[folder]
        if home not in projects:
            projects[home] = load_project(home)
        files.setdefault(home, []).append(path)
    return [(projects[home], found) for home, found in files.items()]


def _home(folder: Path) -> Path:
    """Where to look for the project of a folder's files: the working directory, unless they belong to another one."""
    own, here = project_folder(folder), project_folder(Path.cwd())
    return Path.cwd() if own is None or own == here else own


def _policies(project: Project, asked: Asked) -> list[Policy]:
    """What the project's targets are judged by; of a project without targets, what one would be."""
    path = asked.baseline or project.baseline
    known = read_baseline_at(path) if asked.is_baseline_used else None
    if known is None and asked.baseline is not None:
        raise GraphDoctorError(
            f"There is no baseline at {path}.", hint=f"graphdoctor baseline --baseline {path} writes one."
        )
    targets = project.targets or (GateTarget(RunSpec(target=""), name=""),)
    demands = Demands(select=asked.select, ignore=asked.ignore)
    return list(policies(targets, project, demands=demands, baseline=known).values())


def _merged(reports: Sequence[LintReport]) -> LintReport:
    if not reports:
        return LintReport(graphdoctor_version=__version__, file_count=0, function_count=0, findings=())
    return reports[0].model_copy(
        update={
            "file_count": sum(report.file_count for report in reports),
            "function_count": sum(report.function_count for report in reports),
            "findings": tuple(finding for report in reports for finding in report.findings),
            "failing_count": sum(report.failing_count for report in reports),
            "known": tuple(finding for report in reports for finding in report.known),
            "ignored_count": sum(report.ignored_count for report in reports),
            "unreadable": tuple(one for report in reports for one in report.unreadable),
            "notes": tuple(note for report in reports for note in report.notes),
        }
    )


def _last_recording(settings: Settings) -> tuple[str | None, Recorded]:
    """The last recording and what it saw, where there is one that can be read: lint doesn't need it."""
    from graphdoctor.commands.named import last_recording
    from graphdoctor.facts.stack import relative
    from graphdoctor.trace.reader import read_recording

    try:
        path = last_recording(settings).path
        return relative(str(path), Path.cwd()), recorded_in(read_recording(path))
    except GraphDoctorError:
        return None, Recorded()
