"""Finds which processes wrote a log: from samples of it, and record by record.

A log can have several: a program and the process that it forked under an older torch, or a job's ranks put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from graphdoctor.trace.grammar import Record
from graphdoctor.trace.storage.log_file import LogFile
from graphdoctor.trace.versions import is_thread

_HEADER = re.compile(rb"^[VDIWEC](\d{4} \d\d:\d\d:\d\d\.\d+) (\d+) [^\]\n]*\] (\{.*)$", re.MULTILINE)
_RANK_IN_NAME = re.compile(r"(?:^|[_.-])rank[_-]?(\d+)(?=[_.-]|$)")
_RANK_PREFIX = re.compile(r"\[rank(\d+)\]")
_RANK_FOLDER = re.compile(r"rank[_-]?(\d+)")
_ATTEMPT_FOLDER = re.compile(r"attempt_\d+")
_NUMBER = re.compile(r"\d+")
_SAMPLE_BYTES = 1 << 16
_SAMPLES = 10


@dataclass(frozen=True)
class Writer:
    """A process that wrote records of a log; without ``pid`` if torch writes the numbers of threads."""

    time: str
    pid: int | None
    rank: int | None


def find_writers(log: LogFile) -> list[Writer]:
    """The processes and ranks whose records are in a log, in the order in which they begin."""
    found: dict[tuple[int | None, int | None], str] = {}
    for sample in _samples(log):
        for header in _HEADER.finditer(sample):
            found.setdefault((_process_id(header[2].decode()), _recorded_rank(header[3])), header[1].decode())
    ranked = {pid for pid, rank in found if rank is not None}
    writers: list[Writer] = []
    for (pid, rank), time in found.items():
        if rank is None and pid in ranked:
            continue  # records from before the process joined its group
        first = found.get((pid, None), time) if not any(writer.pid == pid for writer in writers) else time
        writers.append(Writer(first, pid, rank))
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
    """The rank that a log's own name has, as torch (``_rank_3_``) and launchers (``rank_3.log``) write it."""
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


@dataclass(eq=False)
class Lane:
    """The records of one process in a log."""

    pid: int | None
    rank: int | None
    is_begun: bool = False
    has_strings: bool = False


class Lanes:
    """Says of each record of one log which process wrote it, in the order of the log.

    Records from before a process joins its group, and definitions of strings, have no rank: they go with the records
    around them. Processes of several machines can have one process id; where strings are numbered from 0 again,
    another one begins.
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
        known = next((found for found in self._lanes if found.pid == pid and found.rank == rank), None)
        if known is None:
            known = self._begun(pid) if lane.rank is not None else lane
            known.rank = rank
        known.is_begun = True
        return known


def is_first_string(record: Record) -> bool:
    """Whether a record defines the string that torch numbers 0, which a process does before all others."""
    return record.kind == "str" and isinstance(record.value, list) and record.value[-1:] == [0]
