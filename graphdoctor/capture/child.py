"""Starts the probe and watches it until it ends, whatever way it ends."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from graphdoctor.capture.request import Request
from graphdoctor.errors import GraphDoctorError

_POLL_S = 0.05
_GRACE_S = 3.0
"""How long a probe that was told to stop may take to say so."""

_QUIET_S = 1.0
"""How long after the probe's end its output must be quiet to count as over."""

_PIPE_BYTES = 2**20
"""More than the pipe can hold when the probe ends: what comes later is of a process that it left behind."""

_MAX_LINE = 500
"""Longest line of a program's message that is repeated in ours; the whole of it stands in its traceback."""

RECORDING_VARIABLE = "_GRAPHDOCTOR_RECORDING"
"""Names the recording to the processes of a script; ``graphdoctor/probe/startup/sitecustomize.py`` reads it."""

_PROBE = Path(__file__).resolve().parent.parent / "probe" / "__main__.py"


@dataclass(frozen=True)
class Watching:
    """What the parent does while the probe runs.

    Args:
        on_phase: Called with each new phase, such as ``call 3``.
        on_output: Called with the program's own output, stdout and stderr in the order it came.
        is_cancelled: Asked again and again whether to stop the probe; for a thread, which no signal reaches.
    """

    on_phase: Callable[[str], None]
    on_output: Callable[[bytes], None]
    is_cancelled: Callable[[], bool] = bool


def record(
    request: Request,
    recording: Path,
    *,
    python: str,
    timeout_s: float | None,
    watching: Watching,
    memory_bytes: int | None = None,
    descriptor: int | None = None,
) -> dict[str, Any]:
    """Run the probe once.

    Args:
        request: What it is asked to do.
        recording: The recording's folder, empty.
        python: The interpreter to run it with; it needs torch and nothing else.
        timeout_s: Seconds until the probe is stopped, or None.
        watching: What to do meanwhile.
        memory_bytes: Resident memory beyond which the probe is stopped, or None; watched on Linux only.
        descriptor: An open file that the probe inherits under the same number, or None.

    Returns:
        The fields of ``ProbeExit``, also written to ``recording.json``.

    Raises:
        GraphDoctorError: The interpreter cannot be started.
    """
    request_path = recording / "request.json"
    # Not orjson: it refuses integers of more than 64 bits.
    request_path.write_text(json.dumps(request.for_probe()), encoding="utf-8")
    write_meta(recording, request.described(), None)
    started = time.monotonic()
    with _terminate_as_interrupt():
        process = _start(python, request_path, recording, () if descriptor is None else (descriptor,))
        output = _Output(process.stdout, watching.on_output)
        stopped_for = _wait(process, recording, timeout_s, memory_bytes, watching)
    output.finish()
    crash = _crash_report(recording) if process.returncode < 0 else None
    if crash is not None:
        watching.on_output(crash.encode())
    ended = _describe_end(process.returncode, stopped_for, read_events(recording), python, timeout_s)
    ended["duration_s"] = time.monotonic() - started
    if crash is not None:
        ended["traceback"] = crash
    write_meta(recording, request.described(), ended)
    return ended


def _start(python: str, request_path: Path, recording: Path, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    environment = os.environ | {"TORCH_TRACE": str(recording / "trace")}
    # We may have been started by a script that `graphdoctor run` runs: this recording is not a part of that one.
    environment.pop(RECORDING_VARIABLE, None)
    # -u: the program's prints appear while it runs; faulthandler: a segmentation fault says where.
    command = [python, "-u", "-X", "faulthandler", str(_PROBE), str(request_path)]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            # A group of its own: Ctrl-C reaches the probe through us, and its own children can be stopped with it.
            process_group=0,
            pass_fds=descriptors,
        )
    except OSError as error:
        raise GraphDoctorError(
            f"The interpreter {python} cannot be started: {error.strerror}.",
            hint="Give --python the path of an interpreter that has torch.",
        ) from error


class _Output:
    """Passes on what the probe prints, in a thread of its own."""

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
            # Whoever read our standard error may have gone; the probe must not block on a full pipe.
            with contextlib.suppress(OSError, ValueError):
                self._on_output(chunk)
            self._is_writing = False

    def finish(self) -> None:
        """Wait for the last of the output; a process that the program left behind may hold the pipe for ever."""
        limit = self._byte_count + _PIPE_BYTES
        while self._thread.is_alive() and self._byte_count < limit:
            before = self._byte_count
            self._thread.join(timeout=_QUIET_S)
            if self._byte_count == before and not self._is_writing:
                break
        self._is_over = True


def _wait(
    process: subprocess.Popen[bytes],
    recording: Path,
    timeout_s: float | None,
    memory_bytes: int | None,
    watching: Watching,
) -> str | None:
    """Wait for the end; None, ``timeout``, ``memory`` or ``interrupted``."""
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    following = _Following(recording / "probe.jsonl")
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_POLL_S)
                return None
            for event in following.new():
                if event.get("event") == "phase":
                    watching.on_phase(str(event.get("phase")))
                elif event.get("event") == "finished":
                    # Threads that the program left running may keep the process alive.
                    deadline = min(deadline, time.monotonic() + _GRACE_S)
            if watching.is_cancelled():
                _stop(process, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
                return "interrupted"
            if time.monotonic() > deadline:
                _stop(process, (signal.SIGTERM, signal.SIGKILL))
                return "timeout"
            if memory_bytes is not None and _resident_bytes(process.pid) > memory_bytes:
                _stop(process, (signal.SIGKILL,))
                return "memory"
    except KeyboardInterrupt:
        _stop(process, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        return "interrupted"


def _resident_bytes(pid: int) -> int:
    """Resident memory of a process, 0 where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Stop the probe too when we are told to terminate or lose the terminal.

    Signals can only be handled in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(process: subprocess.Popen[bytes], signals: tuple[signal.Signals, ...]) -> None:
    """Send the signals one by one, each with a grace, until the probe is gone; a second Ctrl-C ends the patience."""
    for number in signals:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        except KeyboardInterrupt:
            continue
        break
    # Its own children (data loader workers) may outlive it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Following:
    """Follows the event file while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Events written since the last time."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                added = stream.read()
        except OSError:
            return
        complete, newline, _ = added.rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        yield from _parse(complete)


def read_events(recording: Path) -> list[dict[str, Any]]:
    """What the child said in ``probe.jsonl``."""
    try:
        return list(_parse((recording / "probe.jsonl").read_bytes()))
    except OSError:
        return []


def _parse(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        with contextlib.suppress(orjson.JSONDecodeError):
            event = orjson.loads(line)
            if isinstance(event, dict):
                yield event


def _describe_end(
    status: int, stopped_for: str | None, events: list[dict[str, Any]], python: str, timeout_s: float | None
) -> dict[str, Any]:
    """The fields of ``ProbeExit``."""
    phase = next((event["phase"] for event in reversed(events) if event.get("event") == "phase"), None)
    last = {event.get("event"): event for event in events}
    ended: dict[str, Any] = {"status": status, "phase": phase}
    if last.get("finished", {}).get("is_complete"):
        # What happens while Python shuts down, exit handlers included, takes nothing from the recording.
        peak = last["finished"].get("peak_memory_bytes")
        return ended | {"reason": "finished", "message": None, "peak_memory_bytes": peak}
    if stopped_for == "interrupted" or "interrupted" in last:
        return ended | {"reason": "interrupted", "message": f"Interrupted{_during(phase)}."}
    if "call_failed" in last:
        return ended | describe_failed_call(last["call_failed"])
    if stopped_for == "timeout":
        return ended | {
            "reason": "timeout",
            "message": f"Stopped after {timeout_s:g} s{_during(phase)}.",
            "hint": "Raise --timeout, or make the call smaller.",
        }
    if stopped_for == "memory":
        return ended | {"reason": "killed", "message": f"Stopped{_during(phase)}: it took too much memory."}
    if "exited" in last:
        return ended | _describe_exit(last["exited"], phase)
    if "error" in last:
        return ended | _describe_error(last["error"], phase, python)
    if not events:
        return ended | {
            "reason": "error",
            "message": f"{python} could not run the probe: it ended with status {status}.",
            "hint": "Give --python the path of a Python 3.11 or newer that has torch.",
        }
    return ended | _describe_death(status, _during(phase))


def _during(phase: str | None) -> str:
    if phase is None:
        return " before it began"
    return f" in {phase}" if phase.startswith(("call ", "variation ")) else f" while {phase}"


def describe_failed_call(event: dict[str, Any]) -> dict[str, Any]:
    """What an event ``call_failed`` means for the fields of ``ProbeExit``."""
    call = f"call {event.get('index')}"
    what = f"{event.get('type')}: {first_line(event.get('message'))}"
    raised = f"torch.compile refused {call}" if event.get("from_compiler") else f"The program failed in {call}"
    return {"phase": call, "reason": "error", "message": f"{raised}: {what}", "traceback": event.get("traceback")}


def first_line(message: object) -> str:
    """The first line of a program's message, cut where it is longer than a line should be."""
    line = next((line.strip() for line in str(message).splitlines() if line.strip()), "")
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 1] + "…"


def _describe_exit(event: dict[str, Any], phase: str | None) -> dict[str, Any]:
    place = f" at {event['place']}" if event.get("place") else ""
    is_import = phase == "importing the target"
    return {
        "reason": "exited",
        "message": f"The program called sys.exit({event.get('status')}){_during(phase)}{place}.",
        "hint": 'Put what it does as a script under if __name__ == "__main__":.' if is_import else None,
        "traceback": event.get("traceback"),
    }


def _describe_error(event: dict[str, Any], phase: str | None, python: str) -> dict[str, Any]:
    if event.get("type") is None:
        message = str(event.get("message"))
        message = message if message.endswith((".", "…")) else f"{message}."
        return {"reason": "error", "message": message, "hint": event.get("hint")}
    if phase == "importing torch":
        return {
            "reason": "error",
            "message": f"{python} cannot import torch: {first_line(event.get('message'))}.",
            "hint": "Install torch>=2.11 there, or give --python an interpreter that has it.",
            "traceback": event.get("traceback"),
        }
    return {
        "reason": "error",
        "message": f"The program failed{_during(phase)}: {event['type']}: {first_line(event.get('message'))}",
        "traceback": event.get("traceback"),
    }


def _describe_death(status: int, during: str) -> dict[str, Any]:
    if status >= 0:
        return {
            "reason": "exited",
            "message": f"The program ended the process{during}, with exit status {status}.",
        }
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = None
    if name == "SIGKILL":
        hint = "The system kills a process that uses up its memory: try smaller inputs."
    elif name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"):
        hint = "Its last Python lines stand above. Does the same call work without torch.compile?"
    return {"reason": "killed", "message": f"The process was killed by {name}{during}.", "hint": hint}


def _crash_report(recording: Path) -> str | None:
    """What Python's faulthandler wrote about a crash, without the probe's own lines."""
    try:
        text = (recording / "crash.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    text = text.partition("\nExtension modules:")[0]
    lines = [line for line in text.splitlines(keepends=True) if str(_PROBE.parent) not in line]
    return "".join(lines) or None


def write_meta(recording: Path, target: dict[str, Any], ended: dict[str, Any] | None) -> None:
    """Write ``recording.json``.

    Args:
        recording: The recording's folder.
        target: Fields of ``TargetInfo``.
        ended: The fields of ``ProbeExit``; None while the child runs.
    """
    meta = {"format": 1, "target": target, "exit": ended}
    temporary = recording / "recording.json.new"
    temporary.write_text(json.dumps(meta), encoding="utf-8")
    temporary.replace(recording / "recording.json")


def interpreter(asked: str | None) -> str:
    """The interpreter to run the probe with: the one asked for, or ours."""
    if asked is None:
        return sys.executable
    path = Path(asked).expanduser()
    return str(path) if path.exists() or os.sep in asked else asked
