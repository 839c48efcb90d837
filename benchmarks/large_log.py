"""Reading a large trace log: seconds and memory.

The log is made by repeating a real one with frames and calls renumbered; strings keep their numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.overhead import graphdoctor
from benchmarks.process import run
from benchmarks.rows import Row

_FRAME = re.compile(rb'"frame_id": (\d+)')
_COMPILE = re.compile(rb'"compile_id": "(\d+)/')
_CALL = re.compile(rb'^(\t\{"event": "\w+", "index": )(\d+)')
_STRING = b'] {"str": ['

_RECORDS = (
    "import collections, pathlib, sys\n"
    "from graphdoctor.trace.grammar import LogDamage, read_records\n"
    "from graphdoctor.model.recording import Environment\n"
    "from graphdoctor.trace.intake import Intake\n"
    "with pathlib.Path(sys.argv[1]).open('rb') as lines:\n"
    "    collections.deque(read_records(lines, Intake(Environment()).wants, LogDamage()), maxlen=0)\n"
)
_RECORDING = (
    "import pathlib, sys\n"
    "from graphdoctor.trace.reader import read_recording\n"
    "read_recording(pathlib.Path(sys.argv[1]))\n"
)


def write_log(recording: Path, log: Path, *, size_bytes: int) -> int:
    """Repeat a recording's log until it is as large as asked.

    Returns:
        The size that was written.
    """
    (original,) = (recording / "trace").glob("*.log")
    lines = original.read_bytes().splitlines(keepends=True)
    count = 1 + max(int(number) for line in lines for number in _FRAME.findall(line))
    written = copy = 0
    with log.open("wb") as stream:
        while written < size_bytes:
            for line in _renumbered(lines, copy, copy * count):
                written += stream.write(line)
            copy += 1
    return written


def _renumbered(lines: list[bytes], copy: int, offset: int) -> Iterator[bytes]:
    for line in lines:
        if line.startswith(b"\t"):
            yield _CALL.sub(lambda match: match[1] + b"%d" % (int(match[2]) + copy), line)
        elif _STRING not in line:
            renumbered = _FRAME.sub(lambda match: b'"frame_id": %d' % (int(match[1]) + offset), line)
            yield _COMPILE.sub(lambda match: b'"compile_id": "%d/' % (int(match[1]) + offset), renumbered)
        elif copy == 0:
            yield line


def measure(*, recording: Path, rounds: int, size_bytes: int, folder: Path) -> list[Row]:
    """Measure reading; every figure is for 100 MB of log.

    Args:
        recording: The recording to repeat.
        rounds: How often to measure.
        size_bytes: How much log to read.
        folder: Where to write it, and run.
    """
    log, short = folder / "dedicated_log_torch_trace_large.log", folder / "dedicated_log_torch_trace_short.log"
    scale = 1e8 / write_log(recording, log, size_bytes=size_bytes)
    write_log(recording, short, size_bytes=1)
    programs = {
        "records alone": [sys.executable, "-c", _RECORDS],
        "to a recording": [sys.executable, "-c", _RECORDING],
        "`graphdoctor report`": [*graphdoctor(), "report"],
    }
    rows = []
    for name, program in programs.items():
        seconds, megabytes = [], []
        for _ in range(rounds):
            # What is left when the short log's cost is taken away is the price of the log's length.
            base, cost = (run([*program, str(path)], cwd=folder) for path in (short, log))
            seconds.append((cost.wall_s - base.wall_s) * scale)
            megabytes.append((cost.peak_mb - base.peak_mb) * scale)
        rows.append(Row(f"100 MB of log, {name}", "", "s", (), seconds))
        rows.append(Row(f"memory for 100 MB of log, {name}", "", "MB", (), megabytes))
    log.unlink()
    return rows
