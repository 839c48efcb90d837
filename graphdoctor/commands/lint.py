"""``graphdoctor lint``: what breaks a graph, by source alone."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.judging import policies_without_runs
from graphdoctor.commands.named import last_recording
from graphdoctor.commands.options import (
    BASELINE,
    COLOR,
    FORMAT,
    NO_BASELINE,
    ShownOptions,
    argument,
    with_options,
)
from graphdoctor.commands.output import Output
from graphdoctor.commands.running import this_project
from graphdoctor.commands.settings import Project, Settings, load_project, project_folder
from graphdoctor.commands.terminal import Color, complain
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import grouped
from graphdoctor.facts.spec import option
from graphdoctor.facts.stack import relative
from graphdoctor.fixes.lint import LintReport, RecordedNames, lint_files, python_files, recorded_in
from graphdoctor.version import __version__
from graphdoctor.views.formats import LINT, RenderOptions


def _by_project(paths: Sequence[Path]) -> list[tuple[Project, list[Path]]]:
    home_of = functools.cache(_home)
    files = grouped((home_of(path.absolute().parent), path) for path in paths)
    return [(load_project(home), paths) for home, paths in files.items()]


def _home(folder: Path) -> Path:
    file_project, here = project_folder(folder), project_folder(Path.cwd())
    return Path.cwd() if file_project is None or file_project == here else file_project


def _files_of_targets(project: Project) -> list[Path]:
    """Return the files that the configured targets are in."""
    files = []
    for target in project.targets:
        folder = target.folder or project.root
        name = target.target.rpartition(":")[0] if ":" in target.target else target.target
        module = folder.joinpath(*name.split("."))
        files += [
            path
            for path in (folder / name, module.with_suffix(".py"), module / "__init__.py")
            if path.is_file()
        ]
    return list(dict.fromkeys(files))


def _merged(reports: Sequence[LintReport]) -> LintReport:
    """Return the reports of several projects, their counts and lists added up."""
    if not reports:
        return LintReport(
            graphdoctor_version=__version__, file_count=0, function_count=0, findings=()
        )
    added = {
        name: sum((vars(report)[name] for report in reports), start=type(value)())
        for name, value in vars(reports[0]).items()
        if isinstance(value, (int, tuple))
    }
    return reports[0].replace(**added)


def _last_recording(settings: Settings) -> tuple[str | None, RecordedNames]:
    """Return the last recording and what it saw, where there is one that can be read: lint doesn't
    need it.
    """
    from graphdoctor.trace.reader import read_recording

    try:
        path = last_recording(settings).path
        return relative(str(path), Path.cwd()), recorded_in(read_recording(path))
    except GraphDoctorError:
        return None, RecordedNames()


@with_options(formats=LINT.names, without=("own_code",))
def lint(
    shown: ShownOptions,
    files: Annotated[
        list[Path] | None, argument("Python files, or folders with Python files.")
    ] = None,
    baseline: Path | None = BASELINE,
    is_without_baseline: bool = NO_BASELINE,
    recording: bool = option(
        False,
        "Also check functions seen in the last run; the result then depends on it.",
        flag="--recording/--no-recording",
    ),
    format: str = FORMAT,
    color: Color = COLOR,
) -> None:
    """Find certain graph breaks in source without running it.

    Without files, it looks at those of the configured targets.

    Only breaks that are certain are reported, in functions that the source compiles. Those in the
    baseline are known and don't fail.

    Exits with 0 if nothing fails, 1 if a new finding does, and 2 if a file can't be read.

    Examples:
        graphdoctor lint .: every Python file here
        graphdoctor lint model.py --select GD101: one file, one rule
    """
    output = Output(LINT.named(format), None, RenderOptions(Path.cwd()), color)
    files = files or _files_of_targets(this_project())
    if not files:
        raise GraphDoctorError(
            "No file is named, and no target is configured.",
            hint="graphdoctor lint model.py, or graphdoctor lint src/",
        )
    places = []
    reports = []
    for project, paths in _by_project([path for file in files for path in python_files(file)]):
        place, recorded = (
            _last_recording(project.settings) if recording else (None, RecordedNames())
        )
        places += [place] if place is not None else []
        judged_by = policies_without_runs(
            project, baseline, shown=shown, is_without=is_without_baseline
        )
        reports.append(
            lint_files(
                paths,
                root=project.root,
                version=__version__,
                shown_from=Path.cwd(),
                policies=[policy for _, policy in judged_by],
                recorded=recorded,
            )
        )
    report = _merged(reports).replace(recording=", ".join(places) or None)
    output.write(report)
    for unread in report.unreadable:
        complain(f"{unread.file}{f':{unread.line}' if unread.line else ''} {unread.message}.")
    raise typer.Exit(report.exit_code)
