"""``graphdoctor lint``: what breaks a graph, by source alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdoctor import __version__
from graphdoctor.commands.gating import Demands, policies, read_baseline_at
from graphdoctor.commands.options import BASELINE, COLOR, NO_BASELINE, Color, with_options
from graphdoctor.commands.settings import GateTarget, load_project, project_folder
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import RunSpec, option
from graphdoctor.fixes.lint import LintReport, Recorded, lint_files, python_files, recorded_in
from graphdoctor.views.formats import LINT

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


def _linted(named: Sequence[Path], settings: Settings, asked: Asked) -> LintReport:
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


@with_options(formats=LINT.names)
def lint(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Python files, or folders with Python files.", show_default=False)
    ] = None,
    select: list[str] | None = option(
        None, "Report only rules whose code begins with this, such as GD1. Repeatable.", flag="--select"
    ),
    ignore: list[str] | None = option(
        None, "Leave out rules whose code begins with this. Repeatable.", flag="--ignore"
    ),
    baseline: Path | None = BASELINE,
    is_without_baseline: bool = NO_BASELINE,
    recording: bool = option(
        True, "Include functions that the last recording saw compiled.", flag="--recording/--no-recording"
    ),
    format: str = option(LINT.names[0], "{formats}.", flag="--format", metavar="FORMAT"),
    color: Color = COLOR,
) -> None:
    """Find certain graph breaks in source without running it.

    Only breaks that are certain are reported, in functions that the source compiles. Those in the
    baseline are known and don't fail.

    Exits with 0 if nothing fails, 1 if a new finding does, and 2 if a file can't be read.
    """
    from graphdoctor.commands.output import Output
    from graphdoctor.commands.running import project_settings
    from graphdoctor.commands.terminal import complain
    from graphdoctor.views.formats import RenderOptions

    output = Output(LINT.named(format), None, RenderOptions(Path.cwd()), color)
    if not files:
        raise GraphDoctorError("No file is named.", hint="graphdoctor lint model.py, or graphdoctor lint src/")
    if is_without_baseline and baseline is not None:
        raise GraphDoctorError("--baseline and --no-baseline exclude each other.", hint="Give one of them.")
    asked = Asked(
        select=select or (),
        ignore=ignore or (),
        baseline=baseline,
        is_baseline_used=not is_without_baseline,
        is_recording_used=recording,
    )
    report = _linted(files, project_settings(), asked)
    output.write(report)
    for one in report.unreadable:
        complain(f"{one.file}{f':{one.line}' if one.line else ''} {one.message}.")
    raise typer.Exit(report.exit_code)
