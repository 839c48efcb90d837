"""Runs the targets of a gate, several at once, from one process that has imported torch.

Comes in: targets and a project. Goes out: a diagnosis for each, or why there is none.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
import tokenize
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoctor.commands.options import ProcessOptions
from graphdoctor.commands.running import import_report_meanwhile
from graphdoctor.commands.settings import GateTarget, Project
from graphdoctor.commands.terminal import Progress
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.machine import cores, gpus
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.rules.gate.ignores import Comments, read_comments
from graphdoctor.trials.launch.child import Setup, probe_command
from graphdoctor.trials.launch.recorded import record_target
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.launch.store import Store
from graphdoctor.trials.launch.warm import WarmProbes
from graphdoctor.views.exit_words import CONFIGURATION, worded_exit
from graphdoctor.wording import counted


@dataclass(frozen=True)
class TargetRun:
    """The result of one target.

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
            return self._pool.submit(TargetRun, target, error=error.message, hint=error.hint)
        except OSError as error:
            why = f"It can't be run in {folder}: {error.strerror}."
            return self._pool.submit(TargetRun, target, error=why)
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


def _absolute(python: str | None) -> str | None:
    """Return an interpreter's path that holds in other folders; a link stays, it is what makes a
    virtual environment.
    """
    if python is None or (os.sep not in python and not Path(python).exists()):
        return python
    return str(Path(python).expanduser().absolute())


def _texts(recording: Path, diagnosis: Diagnosis, root: Path) -> dict[str, str]:
    """Return the user's own files that a run touched, as they were then, else as they are; by the
    name that findings use.
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
    for file in [file for file, text in texts.items() if text is None]:
        texts[file] = _on_disk(root / file)
    return {file: text for file, text in texts.items() if text is not None}


def _on_disk(path: Path) -> str | None:
    try:
        with tokenize.open(path) as stream:
            return stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
