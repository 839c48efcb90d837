"""Starts the probe and watches it until it ends, however it ends.

Models are imported after the child has ended, so that it starts soon.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import orjson

from graphdoctor import version
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.reading import plain, write_private
from graphdoctor.probe.wire import (
    CRASH_FILE,
    EVENTS_FILE,
    FORMAT,
    META_FILE,
    REQUEST_FILE,
    TRACE_FOLDER,
)
from graphdoctor.trials.launch.lifeline import Lifeline
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.launch.store import unwritable

if TYPE_CHECKING:
    from graphdoctor.facts.progress import TrialEvent
    from graphdoctor.facts.run import ProbeExit
    from graphdoctor.trials.launch.ends import StoppedFor
    from graphdoctor.trials.launch.warm import WarmProbes, WarmProcess

_POLL_S = 0.05
_GRACE_S = 3.0
"""How long a probe may take to end after it was told to."""

_QUIET_S = 1.0
"""How long the output must be quiet after the probe's end to count as over."""

_PIPE_BYTES = 2**20
"""More than the pipe can hold when the probe ends: later output is from a process that it left
behind."""

_PROCESS_S = 600.0
"""How long one process of a study may take unless the user says so."""

RECORDING_VARIABLE = "_GRAPHDOCTOR_RECORDING"
"""Names the recording to the processes of a script; ``graphdoctor/probe/startup/sitecustomize.py``
reads it."""

_TRACE_VARIABLE = "TORCH_TRACE"
_OF_THE_SYSTEM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC)
"""Why no interpreter at all can be started."""
_PROBE = Path(version.__file__).resolve().parent / "probe" / "__main__.py"


def _ignore(_what: object) -> None: ...


@dataclass(frozen=True)
class Setup:
    """Settings for running processes, and what is done meanwhile.

    None for our interpreter, no limits (of resident memory on Linux), no warm start, our working
    directory.
    """

    python: str | None = None
    timeout_s: float | None = None
    on_phase: Callable[[str], None] = _ignore
    on_output: Callable[[bytes], None] = _ignore
    on_trial: Callable[[TrialEvent], None] = _ignore
    is_cancelled: Callable[[], bool] = bool
    warm: WarmProbes | None = None
    memory_bytes: int | None = None
    folder: Path | None = None

    @property
    def interpreter(self) -> str:
        """The interpreter to run with."""
        return interpreter(self.python)

    @property
    def with_limit(self) -> Setup:
        """The same with a limit of time, if there is none: "max-autotune" tries kernels for
        minutes.
        """
        return replace(self, timeout_s=self.timeout_s or _PROCESS_S)


def record(request: Request, recording: Path, setup: Setup) -> ProbeExit:
    """Run the probe once, in an empty folder."""
    python = setup.interpreter
    described = request.described() | ({} if python == sys.executable else {"python": python})
    request_path = recording / REQUEST_FILE
    with written(recording):
        # Not orjson: it refuses integers of more than 64 bits.
        write_private(request_path, json.dumps(request.for_probe()))
        write_meta(recording, described, None)
    child = watch(
        request_path,
        setup,
        traced=request.is_recorded,
        backend=request.spec.backend,
        descriptors=request.descriptors,
    )
    if child.crash is not None and child.stopped_for is None:
        setup.on_output(child.crash.encode())
    ended = end_of(child, last_events(recording), setup).replace(duration_s=child.duration_s)
    with written(recording):
        write_meta(recording, described, ended)
    return ended


@dataclass(frozen=True)
class ChildExit:
    """The end of a child; ``crash`` is what Python's faulthandler wrote of a signal, or of where
    the main thread stood at a timeout.
    """

    status: int
    stopped_for: StoppedFor | None
    duration_s: float
    crash: str | None


def end_of(child: ChildExit, last: dict[str, dict[str, Any]], setup: Setup) -> ProbeExit:
    """Describe how a child ended that reported these last events."""
    # Not earlier: models take longer to import than the child to start.
    from graphdoctor.trials.launch.ends import end_of_probe

    return end_of_probe(
        child.status,
        child.stopped_for,
        last,
        python=setup.interpreter,
        timeout_s=setup.timeout_s,
        crash=child.crash,
    )


def watch(
    request_path: Path,
    setup: Setup,
    *,
    traced: bool = False,
    backend: str = "eager",
    library: str | None = None,
    descriptors: tuple[int, ...] = (),
) -> ChildExit:
    """Start a child for a request, and wait for its end."""
    started = time.monotonic()
    folder = request_path.parent
    # A script that `graphdoctor run` runs may have started us: this recording isn't part of that
    # one.
    left_out = (_TRACE_VARIABLE, RECORDING_VARIABLE)
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    if traced:
        environment[_TRACE_VARIABLE] = str(folder / TRACE_FOLDER)
    with Lifeline() as lifeline, _Uninterrupted() as start:
        process: subprocess.Popen[bytes] | WarmProcess | None = None
        if setup.warm is not None:
            process = setup.warm.start(
                request_path,
                backend=backend,
                environment=environment,
                descriptors=descriptors,
                held=lifeline.descriptor,
                timeout_s=setup.timeout_s,
                library=library,
                folder=setup.folder,
            )
        if process is None:
            command = [*probe_command(setup.interpreter), str(request_path), *lifeline.arguments]
            start.defer()
            with starting(command[0], "an interpreter that has torch"):
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=setup.folder,
                    # A group of its own: Ctrl-C reaches the probe through us, and its children can
                    # be stopped with it.
                    process_group=0,
                    pass_fds=(*descriptors, lifeline.descriptor),
                )
        lifeline.hold(-process.pid)
        output = _Output(process.stdout, setup.on_output)
        stopped_for = _wait(process, folder, setup, start)
    output.finish()
    duration_s, status = time.monotonic() - started, process.wait()
    has_report = status < 0 or stopped_for == "timeout"
    return ChildExit(status, stopped_for, duration_s, crash_report(folder) if has_report else None)


@contextlib.contextmanager
def written(recording: Path) -> Iterator[None]:
    """Say in a sentence why a file of a recording can't be written."""
    try:
        yield
    except FileNotFoundError as error:
        raise GraphDoctorError(
            f"The recording {recording} was removed while the program ran."
        ) from error
    except OSError as error:
        raise unwritable(recording, error) from error


def probe_command(python: str) -> list[str]:
    """Build the command that starts the child's main script, but for its argument."""
    # -u: the program's prints appear while it runs; faulthandler: a segmentation fault reports
    # where.
    return [python, "-u", "-X", "faulthandler", str(_PROBE)]


@contextlib.contextmanager
def starting(python: str, program: str) -> Iterator[None]:
    """Say in a sentence why an interpreter can't be started; ``wanted``: which one to name
    instead.
    """
    try:
        yield
    except OSError as error:
        raise GraphDoctorError(
            f"The interpreter {python} can't be started: {error.strerror}.",
            hint=None
            if error.errno in _OF_THE_SYSTEM
            else f"Set --python to the path of {program}.",
        ) from error


class _Output:
    """Passes on what the probe prints, in its own thread."""

    def __init__(self, stream: IO[bytes] | None, on_output: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._on_output = on_output
        self._byte_count = 0
        self._is_writing = False
        self._is_over = False
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        while self._stream is not None and (chunk := os.read(self._stream.fileno(), 65536)):
            if self._is_over:
                return
            self._byte_count += len(chunk)
            self._is_writing = True
            # The reader of our standard error may be gone; the probe must not block on a full pipe.
            with contextlib.suppress(OSError, ValueError):
                self._on_output(chunk)
            self._is_writing = False

    def finish(self) -> None:
        """Wait for the last of the output; a process that the program left behind may hold the pipe
        forever.
        """
        limit = self._byte_count + _PIPE_BYTES
        while self._thread.is_alive() and self._byte_count < limit:
            before = self._byte_count
            self._thread.join(timeout=_QUIET_S)
            if self._byte_count == before and not self._is_writing:
                break
        self._is_over = True


class _Uninterrupted(contextlib.ExitStack):
    """Puts off signals that end us while a probe is started: one that nobody knows of yet would
    outlive us.
    """

    def __init__(self) -> None:
        super().__init__()
        self._deferred: list[int] = []

    def defer(self) -> None:
        """From here on, but for what is ignored anyway."""
        heard = [
            item
            for item in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if callable(signal.getsignal(item))
        ]
        self.enter_context(handling(heard, lambda number, _: self._deferred.append(number)))

    def end(self) -> None:
        """Do what was put off."""
        self.close()
        if self._deferred:
            signal.raise_signal(self._deferred[0])


def _wait(
    process: subprocess.Popen[bytes] | WarmProcess,
    recording: Path,
    setup: Setup,
    start: _Uninterrupted,
) -> StoppedFor | None:
    memory_bytes = setup.memory_bytes
    deadline = math.inf if setup.timeout_s is None else time.monotonic() + setup.timeout_s
    offset = 0
    try:
        start.end()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_POLL_S)
                return None
            events, offset = _events_from(recording, offset)
            for event in events:
                if event["event"] == "phase":
                    setup.on_phase(str(event.get("phase")))
                elif event["event"] == "finished":
                    # Threads that the program left running may keep the process alive.
                    deadline = min(deadline, time.monotonic() + _GRACE_S)
            if setup.is_cancelled():
                raise KeyboardInterrupt
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGUSR2)
                time.sleep(_POLL_S)
                _stop(process, (signal.SIGTERM, signal.SIGKILL))
                return "timeout"
            if memory_bytes is not None and _resident_bytes(process.pid) > memory_bytes:
                _stop(process, (signal.SIGKILL,))
                return "memory"
    except KeyboardInterrupt:
        _stop(process, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        return "interrupted"


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def handling(
    numbers: Iterable[signal.Signals], handler: Callable[[int, object], object]
) -> Iterator[None]:
    """Handle signals meanwhile, which only the main thread can."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if is_main}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _stop(
    process: subprocess.Popen[bytes] | WarmProcess, signals: tuple[signal.Signals, ...]
) -> None:
    """Send the signals one by one, with a grace period each, until the probe is gone; another
    Ctrl-C skips the wait.
    """
    for number in signals:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(timeout=_GRACE_S)
            break
    # Its children (data loader workers) may outlive it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_events(recording: Path) -> dict[str, dict[str, Any]]:
    """Read the last event of each kind that the child reported."""
    return {event["event"]: event for event in _events_from(recording, 0)[0]}


def _events_from(recording: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    complete = b""
    with contextlib.suppress(OSError), (recording / EVENTS_FILE).open("rb") as stream:
        stream.seek(offset)
        complete = stream.read()
        complete = complete[: complete.rfind(b"\n") + 1]
    events = []
    for line in complete.splitlines():
        with contextlib.suppress(orjson.JSONDecodeError):
            event = orjson.loads(line)
            if isinstance(event, dict) and "event" in event:
                events.append(event)
    return events, offset + len(complete)


def crash_report(recording: Path) -> str | None:
    """Read what faulthandler wrote, without our own lines; None if nothing."""
    try:
        text = (recording / CRASH_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    lines = text.partition("\nExtension modules:")[0].splitlines(keepends=True)
    return "".join([line for line in lines if str(_PROBE.parent.parent) not in line]) or None


def write_meta(recording: Path, target: dict[str, Any], ended: ProbeExit | None) -> None:
    """Write ``recording.json``."""
    meta = {"format": FORMAT, "target": target, "exit": None if ended is None else plain(ended)}
    temporary = recording / f"{META_FILE}.new"
    write_private(temporary, json.dumps(meta))
    temporary.replace(recording / META_FILE)


def check_interpreter(python: str, program: str = "an interpreter") -> None:
    """Refuse an interpreter that can't be started, before anything is written for it."""
    with starting(python, program):
        if shutil.which(python) is None:
            raise OSError(
                errno.ENOENT, os.strerror(errno.EACCES if Path(python).exists() else errno.ENOENT)
            )


def interpreter(asked: str | None) -> str:
    """Choose the interpreter to run the probe with: the one asked for, or ours."""
    path = Path(asked or sys.executable).expanduser()
    # A name without a folder would be looked for on PATH.
    return str(path.absolute()) if asked is None or path.exists() or os.sep in asked else asked
