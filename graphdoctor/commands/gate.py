"""``graphdoctor check`` and ``graphdoctor baseline``: the gate.

Which targets to run, one run each, several at once from one process that has imported torch, and
what they are judged by.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from graphdoctor.commands.options import (
    BASELINE,
    COLOR,
    FAIL_ON,
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
from graphdoctor.commands.running import import_report_meanwhile, project_in, this_project
from graphdoctor.commands.settings import (
    Budgets,
    GateTarget,
    Project,
    Settings,
    project_folder,
    projects_below,
    repository_of,
    ruling_variables,
)
from graphdoctor.commands.terminal import Color, Progress, complain, say, say_result
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.machine import cores, gpus
from graphdoctor.facts.check import (
    BaselineEntry,
    BudgetName,
    CheckReport,
    TargetCheck,
    UnusedIgnore,
    rebased,
)
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.spec import FailOn, RunSpec, option
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.rules.diagnosis.selection import Selection, code_prefixes
from graphdoctor.rules.gate.baseline import (
    Baseline,
    Found,
    Update,
    read_baseline,
    release,
    run_of,
    updated,
    write_baseline,
)
from graphdoctor.rules.gate.check import (
    Policy,
    check_target,
    empty_text,
    known_run,
    sort_findings,
    trouble_of,
)
from graphdoctor.rules.gate.ignores import Comments, PathIgnore, read_comments, unused_ignores
from graphdoctor.rules.gate.reach import select_targets
from graphdoctor.trials.launch.child import Setup, probe_command
from graphdoctor.trials.launch.discover import discover
from graphdoctor.trials.launch.recorded import record_target
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.launch.store import Store
from graphdoctor.trials.launch.warm import WarmProbes
from graphdoctor.version import __version__
from graphdoctor.views.exit_words import CONFIGURATION, worded_exit
from graphdoctor.views.formats import CHECK, RenderOptions
from graphdoctor.wording import counted, nearest

# Running targets.


@dataclass(frozen=True)
class TargetRun:
    """What came of one target.

    Args:
        diagnosis: With all findings; None when there is not even a partial recording.
        error: Why there is none.
    """

    target: GateTarget
    diagnosis: Diagnosis | None = None
    comments: Comments = field(default_factory=dict)
    error: str = ""
    hint: str | None = None


def run_all(
    targets: Sequence[GateTarget], project: Project, asked: ProcessOptions
) -> list[TargetRun]:
    """Run targets, saying which one; one that can't be run says why, and costs no other.

    As many at once as there are cores; one after the other where there is a GPU, whose memory they
    would share.

    Raises:
        KeyboardInterrupt: A run was interrupted: then none of the others is wanted.
    """
    import_report_meanwhile()
    jobs = 1 if gpus() else max(min(cores(), len(targets)), 1)
    with (
        Progress(is_quiet=asked.quiet) as progress,
        _Runs(project, asked, progress, len(targets), jobs) as runs,
    ):
        numbered = enumerate(targets, start=1)
        return runs.finished({target.name: runs.begin(at, target) for at, target in numbered})


class _Runs(contextlib.ExitStack):
    def __init__(
        self, project: Project, asked: ProcessOptions, progress: Progress, total: int, jobs: int
    ) -> None:
        super().__init__()
        self._project, self._asked, self._progress, self._total = project, asked, progress, total
        self._is_cancelled = threading.Event()
        self._warm: dict[str, WarmProbes] = {}
        self._is_alone = jobs == 1
        self._pool = ThreadPoolExecutor(max_workers=jobs)

    def begin(self, number: int, target: GateTarget) -> Future[TargetRun]:
        """Run a target as soon as there is a core for it."""
        folder = target.folder or self._project.root
        try:
            # What its paths are relative to is known here: threads share the working directory.
            with contextlib.chdir(folder):
                request = Request.of(target.spec, Measured(coverage=True))
                store = self._project.settings.store
        except GraphDoctorError as error:
            return _ended(TargetRun(target, error=error.message, hint=error.hint))
        except OSError as error:
            why = f"It can't be run in {folder}: {error.strerror}."
            return _ended(TargetRun(target, error=why))
        limit_s = self._asked.timeout or target.timeout or self._project.settings.timeout
        setup = self._progress.setup(_absolute(self._asked.python) or target.python, limit_s)
        if setup.interpreter not in self._warm:
            probes = WarmProbes(probe_command(setup.interpreter))
            self._warm[setup.interpreter] = self.enter_context(contextlib.closing(probes))
        warm = self._warm[setup.interpreter]
        setup = replace(setup, folder=folder, warm=warm, is_cancelled=self._is_cancelled.is_set)
        return self._pool.submit(self._run, number, target, request, store, setup)

    def finished(self, begun: Mapping[str, Future[TargetRun]]) -> list[TargetRun]:
        """Wait for all, by name, and return their results."""
        try:
            wait(begun.values(), return_when=FIRST_EXCEPTION)
            return [run.result() for run in begun.values() if run.done()]
        except KeyboardInterrupt:
            left = [name for name, run in begun.items() if not run.done() or run.exception()]
            count = f"{len(begun) - len(left)} of {counted(len(begun), 'target')} had run"
            again = f"To run only the others, name them: {shlex.join(left)}."
            raise KeyboardInterrupt(f"{count}, and nothing was judged. {again}") from None
        finally:
            # All have ended, unless this was interrupted.
            self._is_cancelled.set()
            self._pool.shutdown(cancel_futures=True)

    def _run(
        self, number: int, target: GateTarget, request: Request, store: Store, setup: Setup
    ) -> TargetRun:
        if not self._asked.quiet:
            self._progress.say(f"Checking {target.name} ({number} of {self._total})")
        printed: list[bytes] = []
        # No line of another program's comes between those of one.
        shown = setup if self._is_alone else replace(setup, on_output=printed.append)
        try:
            recorded = record_target(request, store, shown, pool="@check")
        except GraphDoctorError as error:
            return TargetRun(target, error=error.message, hint=error.hint)
        finally:
            if printed:
                setup.on_output(b"".join(printed))
        if recorded.is_interrupted:
            raise KeyboardInterrupt
        from graphdoctor.fixes.options import with_declined

        root = self._project.root
        diagnosis = with_declined(
            diagnose_recording(recorded.folder, root=root).diagnosis, recorded.folder, root
        )
        recording = diagnosis.recording
        diagnosis = diagnosis.replace(
            recording=recording.replace(exit=worded_exit(recording.exit, CONFIGURATION))
        )
        return TargetRun(target, diagnosis, read_comments(_texts(recorded.folder, diagnosis, root)))


def _ended(run: TargetRun) -> Future[TargetRun]:
    future = Future[TargetRun]()
    future.set_result(run)
    return future


def _absolute(python: str | None) -> str | None:
    """An interpreter's path that holds in other folders; a link stays, it is what makes a virtual
    environment.
    """
    if python is None or (os.sep not in python and not Path(python).exists()):
        return python
    return str(Path(python).expanduser().absolute())


def _texts(recording: Path, diagnosis: Diagnosis, root: Path) -> dict[str, str]:
    """The user's own files that a run touched, as they were then, else as they are; by the name
    that findings use.
    """
    from graphdoctor.trace.picture import read_files

    texts: dict[str, str | None] = {
        finding.location.file: None
        for finding in diagnosis.findings
        if finding.location.origin == "user"
    }
    for source in read_files(recording, diagnosis.recording.environment):
        if source.origin == "user":
            texts[relative(source.file, root)] = source.text
    found = {file: _on_disk(root / file) if text is None else text for file, text in texts.items()}
    return {file: text for file, text in found.items() if text is not None}


def _on_disk(path: Path) -> str | None:
    try:
        with tokenize.open(path) as stream:
            return stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


# Which targets, and what they are judged by.


@dataclass(frozen=True)
class ChosenTargets:
    """Which targets are run."""

    targets: tuple[GateTarget, ...]
    skipped: tuple[str, ...] = ()


def choose_targets(project: Project, asked: Sequence[str]) -> ChosenTargets:
    """The targets to run: those asked for, by name or by text, configured or not, else all that are
    configured.
    """
    if not asked:
        if not project.targets:
            raise _no_targets(project)
        return ChosenTargets(project.targets)
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
    return ChosenTargets(tuple(chosen.values()))


def reached_targets(project: Project, files: Sequence[str]) -> ChosenTargets:
    """The configured targets that given files can reach."""
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
        skipped=tuple(prefix + name for prefix, report in moved for name in report.skipped),
        unused_ignores=tuple(unused for _, one in moved for unused in one.unused_ignores),
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
    ran: Sequence[TargetRun],
    chosen: ChosenTargets,
    project: Project,
    judged_by: Mapping[str, Policy],
    baseline: Path | None,
) -> CheckReport:
    """Judge the runs."""
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
    runs = [
        (found.comments, found.diagnosis.findings) for found in ran if found.diagnosis is not None
    ]
    return unused_ignores(runs, path_ignores(project), pyproject="pyproject.toml")


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
        "The arguments are changed files: run the configured targets that they reach, those of each"
        " project with its own pyproject.toml and baseline.",
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
        place, baseline_findings = known_baseline(one, baseline, is_without=is_without_baseline)
        judged_by = policies(
            reached.targets,
            one,
            shown=shown,
            limits=budgets.limits,
            fail_on=fail_on,
            baseline=baseline_findings,
        )
        waiting.append((reached, one, judged_by, place if baseline_findings is not None else None))
    reports = [
        judge(run_all(reached.targets, one, run), reached, one, policy, place)
        for reached, one, policy, place in waiting
    ]
    report = merged_report(reports, Path.cwd()).replace(variables=ruling_variables(given))
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


def _found(runs: Sequence[TargetRun], judged_by: Mapping[str, Policy]) -> dict[str, Found]:
    return {
        run.target.name: Found(
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
    before = read_baseline_at(file)
    chosen = choose_targets(project, targets or ())
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
    _show(update)


def _show(update: Update) -> None:
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
    say("Next: graphdoctor check")


def _entry_text(entry: BaselineEntry) -> str:
    return f"{entry.code} {entry.file} {entry.function}  {entry.text or entry.message}"
