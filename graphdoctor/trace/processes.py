"""Finds which processes wrote which logs, of which a log can have several, and what to call
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import orjson

from graphdoctor.trace.grammar import Record
from graphdoctor.trace.storage.log_file import LogFile
from graphdoctor.trace.storage.places import for_each
from graphdoctor.trace.versions import is_thread

_HEADER = re.compile(
    rb"^[VDIWEC](\d{4} \d\d:\d\d:\d\d\.\d+) (\d+) [^\]\n]*\] (\{.*)$", re.MULTILINE
)
_RANK_IN_NAME = re.compile(r"(?:^|[_.-])rank[_-]?(\d+)(?=[_.-]|$)")
_RANK_PREFIX = re.compile(r"\[rank(\d+)\]")
_RANK_FOLDER = re.compile(r"rank[_-]?(\d+)")
_ATTEMPT_FOLDER = re.compile(r"attempt_\d+")
_NUMBER = re.compile(r"\d+")
_SAMPLE_BYTES = 1 << 16
_SAMPLES = 10


_Writer = tuple[int | None, int | None]
"""A process and its rank; without the process if torch writes the numbers of threads."""


def _find_writers(log: LogFile) -> list[tuple[str, _Writer]]:
    found: dict[_Writer, str] = {}
    for sample in _samples(log):
        for header in _HEADER.finditer(sample):
            found.setdefault(
                (_process_id(header[2].decode()), _recorded_rank(header[3])), header[1].decode()
            )
    ranked = {pid for pid, rank in found if rank is not None}
    writers: list[tuple[str, _Writer]] = []
    for (pid, rank), time in found.items():
        if rank is None and pid in ranked:
            continue  # records from before the process joined its group
        is_known = any(pid == known for _, (known, _) in writers)
        writers.append((time if is_known else found.get((pid, None), time), (pid, rank)))
    return writers


def _samples(log: LogFile) -> Iterator[bytes]:
    size = log.size_bytes if log.is_seekable else None
    if size is None or size <= _SAMPLES * _SAMPLE_BYTES:
        yield log.part(0, _SAMPLES * _SAMPLE_BYTES)
        return
    for number in range(_SAMPLES):
        sample = log.part((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1), _SAMPLE_BYTES)
        yield sample if number == 0 else sample[sample.find(b"\n") + 1 :]


def _process_id(number: str) -> int | None:
    return None if is_thread(number) else int(number)


def _recorded_rank(raw: bytes) -> int | None:
    if b'"rank"' not in raw:
        return None
    try:
        rank = orjson.loads(raw).get("rank")
    except orjson.JSONDecodeError:
        return None
    return rank if isinstance(rank, int) else None


def named_rank(log: LogFile) -> int | None:
    """The rank that a log's own name has, as torch (``_rank_3_``) and launchers (``rank_3.log``)
    write it.
    """
    found = _RANK_PREFIX.match(log.line_prefix) or _RANK_IN_NAME.search(log.path.name)
    return int(found[1]) if found else None


def rank_of_folder(log: LogFile) -> int | None:
    """The rank that the folder of a log is named after, or the folder around it.

    A number alone is a rank below ``attempt_0/``, where torchrun keeps what its workers write
    (``torch/distributed/elastic/multiprocessing/api.py``, 2.13).
    """
    for folder in (log.path.parent, log.path.parent.parent):
        if found := _RANK_FOLDER.fullmatch(folder.name):
            return int(found[1])
        if _NUMBER.fullmatch(folder.name) and _ATTEMPT_FOLDER.fullmatch(folder.parent.name):
            return int(folder.name)
    return None


@dataclass(frozen=True)
class ProcessLogs:
    """The logs of one process, in order, and its rank as its records, its log's name or the
    folder's name has it.
    """

    logs: tuple[LogFile, ...]
    pid: int | None
    rank: int | None
    writers: tuple[tuple[int | None, int | None], ...] = ()


def find_processes(logs: Iterable[LogFile], *, main_pid: int | None) -> list[ProcessLogs]:
    """The processes that wrote the logs, the main one first.

    Without a ``main_pid`` that is the one with the lowest rank, otherwise the one that wrote first.
    Only our own recordings have it. Each of them is of one machine, so only there do logs with one
    process id belong together.
    """
    logs = list(logs)
    found = [item for of_log in for_each(_processes_of, logs, logs) for item in of_log]
    # By creation, since the names are random.
    found.sort(key=lambda item: (not item[0], item[0], item[1].logs[0].name))
    processes = _ranked_by_folder([process for _, process in found])
    if main_pid is not None:
        processes = _joined(processes)
    lowest = min([process.rank for process in processes if process.rank is not None], default=None)
    is_known = main_pid is not None and any(process.pid == main_pid for process in processes)
    main = next(
        (each for each in processes if (each.pid == main_pid if is_known else each.rank == lowest)),
        None,
    )
    return sorted(processes, key=lambda process: process is not main)


def _processes_of(log: LogFile) -> list[tuple[str, ProcessLogs]]:
    writers = _find_writers(log)
    if not writers:
        return [("", ProcessLogs((log,), None, named_rank(log)))]
    every = () if len(writers) == 1 else tuple(pair for _, pair in writers)
    processes = [(time, ProcessLogs((log,), pid, rank, every)) for time, (pid, rank) in writers]
    if all(rank is None for _, (_, rank) in writers):
        # The others were forked from the first.
        time, first = processes[0]
        processes[0] = time, replace(first, rank=named_rank(log))
    return processes


def _ranked_by_folder(processes: Sequence[ProcessLogs]) -> list[ProcessLogs]:
    """The processes, with the rank that a folder is named after for the first of its processes if
    none has a rank.
    """
    taken = {process.logs[0].path.parent for process in processes if process.rank is not None}
    ranked = []
    for process in processes:
        folder = process.logs[0].path.parent
        rank = None if folder in taken else rank_of_folder(process.logs[0])
        taken |= set() if rank is None else {folder}
        ranked.append(process if rank is None else replace(process, rank=rank))
    return ranked


def _joined(processes: Iterable[ProcessLogs]) -> list[ProcessLogs]:
    processes = list(processes)
    joined: dict[int, ProcessLogs] = {}
    for process in processes:
        if process.pid is not None:
            before = joined.get(process.pid, ProcessLogs((), process.pid, None))
            rank = process.rank if before.rank is None else before.rank
            logs = tuple(dict.fromkeys((*before.logs, *process.logs)))
            joined[process.pid] = ProcessLogs(
                logs, process.pid, rank, (*before.writers, *process.writers)
            )
    return [*joined.values(), *(process for process in processes if process.pid is None)]


def name_processes(processes: Iterable[ProcessLogs]) -> list[str | None]:
    """Names of processes: None for the first, the main one; ``rank1`` if the rank is known,
    otherwise ``p2``.
    """
    names: dict[str | None, None] = {}
    for number, process in enumerate(processes, start=1):
        name = f"p{number}" if process.rank is None else f"rank{process.rank}"
        # A folder can have the logs of several runs.
        names[None if number == 1 else f"p{number}" if name in names else name] = None
    return list(names)


@dataclass(eq=False)
class Lane:
    """The records of one process in a log."""

    pid: int | None
    rank: int | None
    is_begun: bool = False
    has_strings: bool = False


class Lanes:
    """Says of each record of one log which process wrote it, in the order of the log.

    Records from before a process joins its group, and definitions of strings, have no rank: they go
    with the records around them. Processes of several machines can have one process id; where
    strings are numbered from 0 again, another one begins.
    """

    def __init__(self, known: Iterable[Lane]) -> None:
        self._lanes = list(known)
        self._current: dict[int | None, Lane] = {}

    def of(self, record: Record) -> Lane:
        """The lane of the next record."""
        pid = _process_id(record.stamp.rpartition(" ")[2])
        lane = self._current.get(pid)
        if lane is None:
            lane = self._current[pid] = self._begun(pid)
        if record.kind == "str":
            if lane.rank is not None and lane.has_strings and is_first_string(record):
                lane = self._current[pid] = self._begun(pid)
            lane.has_strings = True
        rank = record.metadata.get("rank")
        if isinstance(rank, int) and rank != lane.rank:
            lane = self._current[pid] = self._ranked(lane, pid, rank)
        return lane

    def _begun(self, pid: int | None) -> Lane:
        for lane in self._lanes:
            if not lane.is_begun and lane.pid in (pid, None):
                lane.is_begun = True
                return lane
        self._lanes.append(Lane(pid, None, is_begun=True))
        return self._lanes[-1]

    def _ranked(self, lane: Lane, pid: int | None, rank: int) -> Lane:
        known = next(
            (found for found in self._lanes if found.pid == pid and found.rank == rank), None
        )
        if known is None:
            known = self._begun(pid) if lane.rank is not None else lane
            known.rank = rank
        known.is_begun = True
        return known


def is_first_string(record: Record) -> bool:
    """Whether a record defines the string that torch numbers 0, which a process does before all
    others.
    """
    return record.kind == "str" and isinstance(record.value, list) and record.value[-1:] == [0]
