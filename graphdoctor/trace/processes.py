"""Finds which log belongs to which process, which process is the main one, and what to call the others.

Comes in: trace logs. Goes out: ``ProcessLogs``, the main process first. Reads only the first lines of each log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from graphdoctor.probe.wire import TRACE_FOLDER

_LOG_PATTERN = "dedicated_log_torch_trace_*.log"
_HEADER = re.compile(rb"^[VDIWEC](\d{4} \d\d:\d\d:\d\d\.\d+) (\d+) ")
_RANK = re.compile(r"_rank_(\d+)_")
_HEAD_LINES = 20
"""The program's own output can come before the first record if it shares the file."""


@dataclass(frozen=True)
class ProcessLogs:
    """The logs of one process.

    Args:
        logs: In order; more than one if the program closed its log (``logging.shutdown``) and torch opened another.
        pid: Its process id, or None if no record has it.
        rank: Its rank in a distributed run, or None.
    """

    logs: tuple[Path, ...]
    pid: int | None
    rank: int | None


def find_logs(folder: Path) -> list[Path]:
    """The trace logs in a recording's folder or one that ``TORCH_TRACE`` wrote; links in it are none."""
    trace = folder / TRACE_FOLDER
    inner = [] if trace.is_symlink() else _logs_in(trace)
    return inner or _logs_in(folder)


def _logs_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(_LOG_PATTERN) if is_own_file(path))


def has_linked_logs(folder: Path) -> bool:
    """Whether what would be trace logs are links, or are in a folder that is one."""
    trace = folder / TRACE_FOLDER
    return trace.is_symlink() or any(
        path.is_symlink() for place in (trace, folder) for path in place.glob(_LOG_PATTERN)
    )


def is_own_file(path: Path) -> bool:
    """Whether a file is really in its folder: a recording can come with links to anything, and with pipes."""
    return path.is_file() and not path.is_symlink()


def find_processes(logs: Iterable[Path], *, main_pid: int | None) -> list[ProcessLogs]:
    """The processes that wrote the logs, the main one first.

    Args:
        logs: Trace logs.
        main_pid: Process id of the main process. If None, the main process is the one with the lowest rank, otherwise
            the one that wrote first. Only our own recordings have it. Each of them is of one machine, so only there do
            logs with one process id belong to one process.
    """
    found: list[tuple[str, ProcessLogs]] = []
    for log in logs:
        time, pid = _first_header(log)
        rank = _RANK.search(log.name)
        found.append((time, ProcessLogs((log,), pid, int(rank[1]) if rank else None)))
    # By creation, since the names are random.
    found.sort(key=lambda item: (not item[0], item[0], item[1].logs[0].name))
    processes = [process for _, process in found]
    if main_pid is not None:
        processes = _joined(processes)
    main = next((process for process in processes if process.pid is not None and process.pid == main_pid), None)
    if main is None:
        # min() keeps the first of equals.
        ranked = [process for process in processes if process.rank is not None]
        main = min(ranked, key=lambda process: process.rank or 0) if ranked else next(iter(processes), None)
    return [*([main] if main else []), *(process for process in processes if process is not main)]


def _joined(processes: Iterable[ProcessLogs]) -> list[ProcessLogs]:
    """One entry for each process id."""
    joined: dict[int | None, ProcessLogs] = {}
    for process in processes:
        before = joined.get(process.pid, ProcessLogs((), process.pid, None))
        rank = process.rank if before.rank is None else before.rank
        joined[process.pid] = ProcessLogs((*before.logs, *process.logs), process.pid, rank)
    return list(joined.values())


def name_processes(processes: Iterable[ProcessLogs]) -> list[str | None]:
    """Names of processes: None for the first, the main one; ``rank1`` if the rank is known, otherwise ``p2``."""
    names: list[str | None] = []
    for number, process in enumerate(processes, start=1):
        name = f"p{number}" if process.rank is None else f"rank{process.rank}"
        # A folder can have the logs of several runs.
        names.append(None if number == 1 else f"p{number}" if name in names else name)
    return names


def _first_header(log: Path) -> tuple[str, int | None]:
    """The time of a log's first record, such as ``1121 02:58:17.809000``, and the id of the process that wrote it."""
    with log.open("rb") as lines:
        for line in islice(lines, _HEAD_LINES):
            if match := _HEADER.match(line):
                return match[1].decode(), int(match[2])
    return "", None
