"""Finds which log belongs to which process, which process is the main one, and what to call the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from graphdoctor.trace.storage.log_file import LogFile
from graphdoctor.trace.storage.places import for_each
from graphdoctor.trace.writers import find_writers, named_rank, rank_of_folder


@dataclass(frozen=True)
class ProcessLogs:
    """The logs of one process, in order.

    Args:
        rank: As its records say, else as its log's name says, else as the folder's name says if that can be said of one
            process alone.
    """

    logs: tuple[LogFile, ...]
    pid: int | None
    rank: int | None
    writers: tuple[tuple[int | None, int | None], ...] = ()


def find_processes(logs: Iterable[LogFile], *, main_pid: int | None) -> list[ProcessLogs]:
    """The processes that wrote the logs, the main one first.

    Without a ``main_pid`` that is the one with the lowest rank, otherwise the one that wrote first. Only our own
    recordings have it. Each of them is of one machine, so only there do logs with one process id belong together.
    """
    logs = list(logs)
    found = [item for of_log in for_each(_processes_of, logs, logs) for item in of_log]
    # By creation, since the names are random.
    found.sort(key=lambda item: (not item[0], item[0], item[1].logs[0].name))
    processes = _ranked_by_folder([process for _, process in found])
    if main_pid is not None:
        processes = _joined(processes)
    main = next((process for process in processes if process.pid is not None and process.pid == main_pid), None)
    if main is None:
        # min() keeps the first of equals.
        ranked = [process for process in processes if process.rank is not None]
        main = min(ranked, key=lambda process: process.rank or 0) if ranked else next(iter(processes), None)
    return [*([main] if main else []), *(process for process in processes if process is not main)]


def _processes_of(log: LogFile) -> list[tuple[str, ProcessLogs]]:
    writers = find_writers(log)
    if not writers:
        return [("", ProcessLogs((log,), None, named_rank(log)))]
    every = () if len(writers) == 1 else tuple((writer.pid, writer.rank) for writer in writers)
    if all(writer.rank is None for writer in writers):
        # The others were forked from the first.
        writers[0] = replace(writers[0], rank=named_rank(log))
    return [(writer.time, ProcessLogs((log,), writer.pid, writer.rank, every)) for writer in writers]


def _ranked_by_folder(processes: Sequence[ProcessLogs]) -> list[ProcessLogs]:
    """The processes, with the rank that a folder is named after for the first of its processes if none has a rank."""
    taken = {process.logs[0].path.parent for process in processes if process.rank is not None}
    ranked = []
    for process in processes:
        folder = process.logs[0].path.parent
        if folder not in taken and (rank := rank_of_folder(process.logs[0])) is not None:
            process = replace(process, rank=rank)  # noqa: PLW2901
            taken.add(folder)
        ranked.append(process)
    return ranked


def _joined(processes: Iterable[ProcessLogs]) -> list[ProcessLogs]:
    joined: dict[int | None, ProcessLogs] = {}
    unknown = []
    for process in processes:
        if process.pid is None:
            unknown.append(process)
            continue
        before = joined.get(process.pid)
        if before is not None:
            rank = process.rank if before.rank is None else before.rank
            logs = tuple(dict.fromkeys((*before.logs, *process.logs)))
            process = ProcessLogs(logs, process.pid, rank, (*before.writers, *process.writers))  # noqa: PLW2901
        joined[process.pid] = process
    return [*joined.values(), *unknown]


def name_processes(processes: Iterable[ProcessLogs]) -> list[str | None]:
    """Names of processes: None for the first, the main one; ``rank1`` if the rank is known, otherwise ``p2``."""
    names: list[str | None] = []
    for number, process in enumerate(processes, start=1):
        name = f"p{number}" if process.rank is None else f"rank{process.rank}"
        # A folder can have the logs of several runs.
        names.append(None if number == 1 else f"p{number}" if name in names else name)
    return names
