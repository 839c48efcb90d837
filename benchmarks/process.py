"""Runs one command and says what it cost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SAMPLE_S = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Cost:
    """What a command cost, its child processes included.

    Args:
        wall_s: Wall time.
        cpu_s: User and system time.
        peak_bytes: The most resident memory that its processes held together, pages that two of
            them share counted twice; where there is no ``/proc``, that of the largest process.
        stdout: What it printed.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: float
    stdout: bytes

    @property
    def peak_mb(self) -> float:
        """``peak_bytes`` in megabytes."""
        return self.peak_bytes / 1e6


def run(
    command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str] | None = None
) -> Cost:
    """Run a command to its end.

    Args:
        command: The command and its arguments.
        cwd: Where it runs.
        environment: What to add to the environment.

    Raises:
        RuntimeError: It failed.
    """
    output, errors = cwd / "stdout", cwd / "stderr"
    with output.open("wb") as out, errors.open("wb") as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **(environment or {})},
        )
        with _PeakSampler(process.pid) as sampler:
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = errors.read_text(errors="replace")[-2000:]
        raise RuntimeError(
            f"{' '.join(map(str, command))} ended with status {process.returncode}:\n{tail}"
        )
    return Cost(
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        # Sampling can miss a short peak; the largest process's own peak it cannot undercut.
        peak_bytes=max(sampler.peak_bytes, usage.ru_maxrss * _MAXRSS_BYTES),
        stdout=output.read_bytes(),
    )


class _PeakSampler:
    """Adds up the resident memory of a process and its descendants, again and again, in a
    thread.
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> _PeakSampler:
        if Path("/proc/self/statm").exists():
            self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(_SAMPLE_S):
            self.peak_bytes = max(
                self.peak_bytes, sum(_resident_bytes(pid) for pid in _tree(self._pid))
            )


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0
