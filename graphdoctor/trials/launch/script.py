"""Runs a program as ``python`` would, with the recorder in it, and reports how it ended.

The child is ``python script.py …`` itself: its standard streams, its terminal and its process group
are ours, so a pipe, a prompt and Ctrl-C reach it as usual. The recorder gets in through a folder on
``PYTHONPATH`` (see ``graphdoctor/probe/startup/sitecustomize.py``).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphdoctor import version
from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.probe.file_names import WATCH_VARIABLE
from graphdoctor.probe.wire import OWN_VARIABLE, TIMEOUT_VARIABLE, TRACE_FOLDER
from graphdoctor.trials.launch.child import (
    RECORDING_VARIABLE,
    crash_report,
    handling,
    last_events,
    starting,
    write_meta,
    written,
)
from graphdoctor.trials.launch.discover import model_in
from graphdoctor.trials.launch.lifeline import Lifeline
from graphdoctor.trials.launch.request import missing_file, refuse_notebook

_STARTUP = Path(version.__file__).resolve().parent / "probe" / "startup"
_GRACE_S = 5.0
"""How long a script may take to end after it was told to."""
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to every process in its foreground."""


@dataclass(frozen=True)
class Script:
    """A program and its arguments."""

    name: str
    is_module: bool
    arguments: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The command line after the interpreter."""
        # Python would take a path that begins with a hyphen for an option.
        name = (
            f".{os.sep}{self.name}" if self.name.startswith("-") and self.name != "-" else self.name
        )
        return [*(("-m", self.name) if self.is_module else (name,)), *self.arguments]

    @property
    def label(self) -> str:
        """Return the name for the recording's folder."""
        return self.name if self.is_module else Path(self.name).stem

    def described(self) -> dict[str, Any]:
        """Describe it as fields of ``TargetInfo``, for the recording."""
        file = None if self.is_module else str(Path(self.name).resolve())
        # Bytes that aren't text can't be written to JSON.
        text = shlex.join(self.command).encode("utf-8", "replace").decode()
        model = None if file is None else model_in(Path(file))
        target = model and f"{self.name}:{model}"
        return {"text": text, "kind": "script", "file": file, "model": target}


@dataclass(frozen=True)
class ScriptEnd:
    """The end of a program; ``unwritten``: why its recording isn't complete, None if it is."""

    status: int
    unwritten: GraphDoctorError | None


def find_script(name: str, arguments: list[str], *, is_module: bool) -> Script:
    """Find the script that a command line names."""
    path = Path(name)
    if not is_module and name != "-":
        with os_errors(name, "read"):
            if not path.exists():
                raise missing_file(path)
        refuse_notebook(path)
    return Script(name, is_module, tuple(arguments))


def run_script(
    script: Script,
    recording: Path,
    *,
    python: str,
    timeout_s: float | None,
    apart: Path | None = None,
    own: Sequence[str] = (),
    is_watching: bool = False,
) -> ScriptEnd:
    """Run the program once; ``own``: installed packages that are the user's own; ``is_watching``:
    each compile is printed as it happens, if graphdoctor is installed there.
    """
    with written(recording):
        write_meta(recording, script.described(), None)
    with _forwarding() as receivers, Lifeline() as lifeline:
        process = _start(
            [python, *script.command], recording, apart, lifeline, own, timeout_s, is_watching
        )
        receivers.append(process)
        is_timeout = _wait(process, timeout_s)
    status = process.returncode
    from graphdoctor.trials.launch.ends import end_of_script

    stopped_after_s = timeout_s if is_timeout else None
    crash = crash_report(recording)
    ended = end_of_script(status, stopped_after_s, last_events(recording), crash=crash)
    unwritten = None
    try:
        with written(recording):
            write_meta(recording, script.described(), ended)
    except GraphDoctorError as error:
        unwritten = error
    return ScriptEnd(status if status >= 0 else 128 - status, unwritten)


def _start(
    command: list[str],
    recording: Path,
    apart: Path | None,
    lifeline: Lifeline,
    packages: Sequence[str],
    timeout_s: float | None,
    is_watching: bool,
) -> subprocess.Popen[bytes]:
    before = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "TORCH_TRACE": str(recording / TRACE_FOLDER),
        "PYTHONPATH": f"{_STARTUP}{os.pathsep}{before}" if before else str(_STARTUP),
        RECORDING_VARIABLE: str(recording),
        OWN_VARIABLE: " ".join(packages),
    }
    if is_watching:
        environment.setdefault(WATCH_VARIABLE, "1")
    if timeout_s is not None:
        environment[TIMEOUT_VARIABLE] = str(timeout_s)
    with starting(command[0], "an interpreter"):
        if apart is None:
            # close_fds: a file that a shell opened for the script (3<file) is the script's. It goes
            # on without us, as it would without `time`.
            return subprocess.Popen(command, env=environment, close_fds=False)
        nowhere, inherited = subprocess.DEVNULL, (lifeline.descriptor,)
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=apart,
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            pass_fds=inherited,
        )
        lifeline.hold(process.pid)
        return process


def _wait(process: subprocess.Popen[bytes], timeout_s: float | None) -> bool:
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_S)
        process.kill()
        process.wait()
        return True
    return False


def _is_terminals_foreground() -> bool:
    try:
        with open("/dev/tty", "rb") as terminal:  # noqa: PTH123 - a device
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def _forwarding() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass signals on to the script, whose end is then ours, once it is in the list."""
    receivers: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: object) -> None:
        # The terminal has passed its own on already.
        if receivers and not (number in _OF_TERMINAL and _is_terminals_foreground()):
            receivers[0].send_signal(number)

    # An ignored signal (nohup) stays ignored, here and in the script, which inherits it.
    heard = [
        item
        for item in (*_FORWARDED, *_OF_TERMINAL)
        if signal.getsignal(item) is not signal.SIG_IGN
    ]
    with handling(heard, pass_on):
        yield receivers
