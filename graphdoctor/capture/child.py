"""Starts the probe and watches it until it ends, whatever way it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from graphdoctor.capture.request import Request
from graphdoctor.errors import GraphDoctorError

_POLL_S = 0.05
_GRACE_S = 3.0
"""How long a probe that was told to stop may take to say so."""

_PROBE = Path(__file__).resolve().parent.parent / "probe" / "__main__.py"


@dataclass(frozen=True)
class Watching:
    """What the parent does while the probe runs.

    Args:
        on_phase: Called with each new phase, such as ``call 3``.
        on_output: Called with the program's own output, stdout and stderr in the order it came.
    """

    on_phase: Callable[[str], None]
    on_output: Callable[[bytes], None]


def record(
    request: Request, recording: Path, *, python: str, timeout_s: float | None, watching: Watching
) -> dict[str, Any]:
    """Run the probe once.

    Args:
        request: What it is asked to do.
        recording: The recording's folder, empty.
        python: The interpreter to run it with; it needs torch and nothing else.
        timeout_s: Seconds until the probe is stopped, or None.
        watching: What to do meanwhile.

    Returns:
        The fields of ``ProbeExit``, also written to ``recording.json``.

    Raises:
        GraphDoctorError: The interpreter cannot be started.
    """
    request_path = recording / "request.json"
    request_path.write_bytes(orjson.dumps(request.for_probe()))
    _write_meta(recording, request, None)
    process = _start(python, request_path, recording)
    reader = threading.Thread(target=_pass_on, args=(process.stdout, watching.on_output), daemon=True)
    reader.start()
    stopped_for = _wait(process, recording, timeout_s, watching)
    # A grandchild may hold the pipe open for ever; what it prints later is not ours to wait for.
    reader.join(timeout=1.0)
    ended = _describe_end(process.returncode, stopped_for, _events(recording), python, timeout_s)
    _write_meta(recording, request, ended)
    return ended


def _start(python: str, request_path: Path, recording: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"TORCH_TRACE": str(recording / "trace")}
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
        )
    except OSError as error:
        raise GraphDoctorError(
            f"The interpreter {python} cannot be started: {error.strerror}.",
            hint="Give --python the path of an interpreter that has torch.",
        ) from error


def _pass_on(stream: BinaryIO | None, on_output: Callable[[bytes], None]) -> None:
    while stream is not None and (chunk := stream.read1(65536)):  # type: ignore[attr-defined]
        on_output(chunk)


def _wait(process: subprocess.Popen[bytes], recording: Path, timeout_s: float | None, watching: Watching) -> str | None:
    """Wait for the end; None, ``timeout`` or ``interrupted``."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    phases = _Phases(recording / "probe.jsonl")
    with _terminate_as_interrupt():
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_POLL_S)
                    return None
                for phase in phases.new():
                    watching.on_phase(phase)
                if deadline is not None and time.monotonic() > deadline:
                    _stop(process, (signal.SIGTERM, signal.SIGKILL))
                    return "timeout"
        except KeyboardInterrupt:
            _stop(process, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
            return "interrupted"


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Stop the probe too when we are told to terminate; signals can only be handled in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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


class _Phases:
    """Follows the event file while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> Iterator[str]:
        """Phases written since the last time."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                added = stream.read()
        except OSError:
            return
        complete, newline, _ = added.rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        for event in _parse(complete):
            if event.get("event") == "phase":
                yield str(event.get("phase"))


def _events(recording: Path) -> list[dict[str, Any]]:
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
    during = f" during {phase}" if phase else " before it began"
    last = {event.get("event"): event for event in events}
    ended: dict[str, Any] = {"status": status, "phase": phase}
    if stopped_for == "timeout":
        return ended | {
            "reason": "timeout",
            "message": f"Stopped after {timeout_s:g} s{during}.",
            "hint": "Raise --timeout, or make the call smaller.",
        }
    if stopped_for == "interrupted" or "interrupted" in last:
        return ended | {"reason": "interrupted", "message": f"Interrupted{during}."}
    if "finished" in last:
        reason = "finished" if status == 0 else "error"
        return ended | {"reason": reason, "message": None if status == 0 else f"The program failed{during}."}
    if "exited" in last:
        code = last["exited"].get("status")
        return ended | {
            "reason": "exited",
            "message": f"The program called sys.exit({code}){during}.",
            "hint": 'Put what it does as a script under if __name__ == "__main__":.',
            "traceback": last["exited"].get("traceback"),
        }
    if "error" in last:
        return ended | _describe_error(last["error"], phase, python)
    return ended | _describe_death(status, during)


def _describe_error(event: dict[str, Any], phase: str | None, python: str) -> dict[str, Any]:
    if event.get("type") is None:
        return {
            "reason": "error",
            "message": f"{event.get('message')}.".replace("..", "."),
            "hint": event.get("hint"),
        }
    if phase == "importing torch":
        return {
            "reason": "error",
            "message": f"{python} cannot import torch: {event.get('message')}.",
            "hint": "Install torch>=2.11 there, or give --python an interpreter that has it.",
            "traceback": event.get("traceback"),
        }
    return {
        "reason": "error",
        "message": f"The program failed during {phase}: {event['type']}: {event.get('message')}",
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
        hint = "Its last Python lines stand above; does the call work without torch.compile?"
    return {"reason": "killed", "message": f"The process was killed by {name}{during}.", "hint": hint}


def _write_meta(recording: Path, request: Request, ended: dict[str, Any] | None) -> None:
    meta = {"format": 1, "target": request.described(), "exit": ended}
    temporary = recording / "recording.json.new"
    temporary.write_bytes(orjson.dumps(meta, default=str, option=orjson.OPT_NON_STR_KEYS))
    temporary.replace(recording / "recording.json")


def interpreter(asked: str | None) -> str:
    """The interpreter to run the probe with: the one asked for, or ours."""
    if asked is None:
        return sys.executable
    path = Path(asked).expanduser()
    return str(path) if path.exists() or os.sep in asked else asked
