"""Settings, progress and exit code of commands that run something."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from graphdoctor.commands.options import Given, OutputOptions, ProcessOptions, TrialOptions
from graphdoctor.commands.output import Output, choose_output
from graphdoctor.commands.settings import Project, Settings, unknown_variables
from graphdoctor.commands.terminal import EXIT_INTERRUPTED, Progress, complain, say, warn
from graphdoctor.facts.diagnosis import Diagnosis, Result
from graphdoctor.facts.recording import Recording
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.launch.child import Setup, probe_command
from graphdoctor.trials.launch.recorded import Recorded, record_target
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.launch.store import NewRecording
from graphdoctor.trials.launch.warm import WarmProbes
from graphdoctor.views.formats import Document
from graphdoctor.wording import join_texts

if TYPE_CHECKING:
    from graphdoctor.fixes.patch import SearchOptions

C = TypeVar("C")

EXIT_FAILED = 2


def project_settings(recordings: Path | None = None) -> Settings:
    """Return the settings of the working directory, with warnings about variables that nothing
    reads.
    """
    from graphdoctor.commands import settings as config

    _warn_of_variables()
    return _recording_to(recordings, config.load_settings(Path.cwd()))


def this_project(recordings: Path | None = None) -> Project:
    """As ``project_settings``, with the targets of the gate."""
    _warn_of_variables()
    from graphdoctor.commands import settings as config

    project = config.load_project(Path.cwd())
    return replace(project, settings=_recording_to(recordings, project.settings))


def _recording_to(recordings: Path | None, settings: Settings) -> Settings:
    # Absolute, because the gate's targets run in folders of their own.
    return settings if recordings is None else replace(settings, recordings=Path.cwd() / recordings)


def _warn_of_variables() -> None:
    for warning in unknown_variables():
        warn(warning)


def begin(
    document: Document[C], asked: OutputOptions, flags: Given, *, is_applied: bool = False
) -> tuple[Settings, Output[C]]:
    """Return the settings, and where a command's result goes."""
    return project_settings(asked.recordings), choose_output(
        document, asked, flags, is_applied=is_applied
    )


@contextlib.contextmanager
def set_up(
    settings: Settings, process: ProcessOptions, *, is_warm: bool = False
) -> Iterator[Setup]:
    """Yield how processes run while a status line shows their progress."""
    import_report_meanwhile()
    if is_warm:
        import_meanwhile("graphdoctor.fixes.search")
    with Progress(is_quiet=process.quiet) as progress, contextlib.ExitStack() as stack:
        setup = progress.setup(
            process.python, settings.timeout if process.timeout is None else process.timeout
        )
        if is_warm:
            warm = WarmProbes(probe_command(setup.interpreter))
            setup = replace(setup, warm=stack.enter_context(contextlib.closing(warm)))
        yield setup


@contextlib.contextmanager
def recording_of(
    request: Request, settings: Settings, process: ProcessOptions, *, is_warm: bool = False
) -> Iterator[tuple[Recorded, Setup]]:
    """As ``set_up``, once the target has been run in a new recording.

    Raises:
        KeyboardInterrupt: What came after the run was interrupted; says that the run is kept.
    """
    with set_up(settings, process, is_warm=is_warm) as setup:
        recorded = record_target(request, settings.store, setup)
        try:
            yield recorded, setup
        except KeyboardInterrupt:
            kept = f"The run is kept, and graphdoctor report {recorded.folder.name} shows it;"
            raise KeyboardInterrupt(f"{kept} the same command begins anew.") from None


def import_report_meanwhile() -> None:
    """Import what the report needs while the probe imports torch."""
    import_meanwhile(
        "graphdoctor.views.terminal",
        "graphdoctor.rules.catalog",
        "graphdoctor.rules.diagnosis.diagnose",
        "graphdoctor.trace.reader",
    )


def import_meanwhile(*modules: str) -> None:
    """Import modules while the probe imports torch."""

    def work() -> None:
        # Only a head start: whatever goes wrong here comes up again where the import is needed.
        with contextlib.suppress(Exception):
            for module in modules:
                importlib.import_module(module)

    # By then, the probe has been started.
    timer = threading.Timer(0.5, work)
    timer.daemon = True
    timer.start()


def trials_of(
    asked: TrialOptions, selection: Selection, *, is_unsafe_tried: bool, is_tried: bool = True
) -> SearchOptions:
    """Return how fixes are tried, from the command line."""
    from graphdoctor.fixes.patch import SearchOptions

    return SearchOptions(
        selection,
        is_unsafe_tried=is_unsafe_tried,
        is_tried=is_tried,
        is_timed=not asked.no_timing,
        jobs=asked.jobs,
        timeout_s=asked.trial_timeout,
        memory_bytes=None if asked.trial_memory is None else int(asked.trial_memory * 2**30),
    )


def write_run(output: Output[Result], result: Result) -> None:
    """Write a run's report, unless the error that ``finish`` prints is all there is to say."""
    if has_report(result.diagnosis.recording) or not output.is_text or output.path is not None:
        output.write(result)


def has_report(recording: Recording) -> bool:
    """Return whether there is more to say of a run than the error that ``finish`` prints."""
    return bool(recording.calls or recording.compiles) and not recording.has_failed_alone


def finish(recorded: Recorded, diagnosis: Diagnosis) -> None:
    """Print how the run ended where that is a problem, and exit as a command whose job is the
    diagnosis.
    """
    tell_place(recorded.made)
    if recorded.exit.message:
        complain(recorded.exit.message, _with_script(recorded.exit.hint, diagnosis))
    elif (lost := recorded.lost(diagnosis)) is not None:
        complain(lost)
    if recorded.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if not recorded.is_explained(diagnosis):
        raise typer.Exit(EXIT_FAILED)


def _with_script(hint: str | None, diagnosis: Diagnosis) -> str | None:
    """Return a hint, and how to record a file that made no call because it's a script."""
    from graphdoctor.trials.launch.discover import is_script, script_hint

    text = diagnosis.recording.target.text or ""
    file = text if text.endswith(".py") else text.rpartition(":")[0]
    if diagnosis.recording.calls or not is_script(Path(file)):
        return hint
    return join_texts("\n", hint, script_hint(file))


def tell_place(made: NewRecording) -> None:
    """Say what was removed for a recording."""
    if made.removed:
        say(
            f"Removed the oldest {'recording' if len(made.removed) == 1 else 'recordings'}:"
            f" {', '.join(made.removed)}"
        )
