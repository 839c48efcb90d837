"""Work for executors: functions of module level, as they have to be."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from graphdoctor.errors import GraphDoctorError


def square(number: int) -> int:
    return number * number


def process_id(_piece: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def fail_at_3(number: int) -> int:
    if number == 3:
        raise KeyError("three")
    if number == 4:
        raise GraphDoctorError("Can't read four.")
    if number == 5:
        raise MemoryError
    if number == 6:
        raise SystemExit(1)
    return number


def unpicklable(number: int) -> object:
    return (lambda: number) if number == 1 else number


def killed_at_2(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leave_at_2(number: int) -> int:
    if number == 2:
        os._exit(7)
    return number


def killed_once(marker: Path) -> str:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def slow_at_0(number: int) -> int:
    time.sleep(0.5 if number == 0 else 0)
    return number


def write_and_sleep(marker: Path) -> None:
    marker.write_text(str(os.getpid()))
    time.sleep(60)


def big(number: int) -> bytes:
    return bytes([number]) * 5_000_000


def slow_square(number: int) -> int:
    time.sleep(0.3)
    return number * number


def place(_piece: int) -> tuple[frozenset[int], str | None, float, float]:
    """Cores, GPUs, beginning and end."""
    begun = time.monotonic()
    time.sleep(0.2)
    return (
        frozenset(os.sched_getaffinity(0)),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
        begun,
        time.monotonic(),
    )


def process_ids(_piece: int) -> tuple[int, int]:
    """Of the piece, and of what works on pieces."""
    return os.getpid(), os.getppid()


_STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".new", "w") as stream:
            stream.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def leave_running(marker: Path) -> tuple[int, int]:
    """Starts a process that starts one in a session of its own, neither of which ends when told
    to."""
    child = subprocess.Popen([sys.executable, "-c", _STUBBORN, str(marker)])
    while not marker.exists():
        time.sleep(0.01)
    return child.pid, int(marker.read_text())


def leave_running_and_sleep(marker: Path) -> None:
    """As ``leave_running``; then it writes down all processes, and sleeps with a folder that it
    would remove."""
    with tempfile.TemporaryDirectory(dir=marker.parent):
        started = leave_running(marker.with_suffix(".pid"))
        text = f"{os.getppid()} {os.getpid()} {started[0]} {started[1]}"
        # As a piece does while it watches a probe: it takes the first signal for its own, and goes
        # on.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            write_and_sleep_as(marker, text)
        signal.signal(signal.SIGTERM, before)
        time.sleep(60)


def write_and_sleep_as(marker: Path, text: str) -> None:
    marker.with_suffix(".new").write_text(text)
    marker.with_suffix(".new").rename(marker)
    time.sleep(60)


def leave_running_and_crash(marker: Path) -> None:
    leave_running(marker)
    os.kill(os.getpid(), signal.SIGSEGV)


def close_everything(_piece: int) -> None:
    """Ends while what it started holds its pipe."""
    if os.fork() == 0:
        time.sleep(60)
    os._exit(3)


def side_by_side(number: int) -> int:
    """A function of another executor's, inside a piece."""
    from graphdoctor.executors.local import Local

    return sum(result for _, result in Local(2).run(square, list(range(number))))


def wait_for(asked: tuple[Path, float]) -> None:
    marker, seconds = asked
    marker.with_suffix(".new").write_text(str(os.getpid()))
    marker.with_suffix(".new").rename(marker)
    time.sleep(seconds)


def kill_keeper(marker: Path) -> None:
    marker.write_text(str(os.getpid()))
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def surroundings(_piece: int) -> tuple[str, str, str | None, str]:
    import library

    return str(Path.cwd()), Path("here.txt").read_text(), os.environ.get("SURVEYED"), library.NAME
