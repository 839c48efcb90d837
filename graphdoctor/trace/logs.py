"""Finds which files are trace logs, and which processes wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.probe.wire import META_FILE, TRACE_FOLDER
from graphdoctor.trace.storage import CutStreamError, Folder, LogFile, for_each
from graphdoctor.wording import counted

_LOG_PATTERN = "dedicated_log_torch_trace_*.log"
_RECORD = rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\]\n]*\] \{"
_FIRST_RECORD = re.compile(rb"^%b" % _RECORD, re.MULTILINE)
_INSIDE_A_LINE = re.compile(rb"^([^\n]+?)%b" % _RECORD, re.MULTILINE)
_LOOK_BYTES = 2**12
_HEAD_BYTES = 2**18
"""A console's log can begin with the launcher's and its libraries' output."""
_MOST_LEVELS = 5
_MOST_FILES = 10_000


def find_logs(path: Path) -> list[LogFile]:
    """The trace logs in a folder of this machine, without links."""
    return logs_in(Folder(path))


def logs_in(folder: Folder) -> list[LogFile]:
    """The trace logs in a recording's folder or one that torch wrote; of any other, those the
    fewest folders down.
    """
    named = list(filter(_is_named, folder.folder(TRACE_FOLDER).files()))
    if named or folder.read(META_FILE):
        named = named or list(filter(_is_named, folder.files()))
        return for_each(LogFile.seen, named, named)
    level = [folder]
    for _ in range(_MOST_LEVELS):
        files = [file for parent in level for file in parent.files()]
        if len(files) > _MOST_FILES:
            raise GraphDoctorError(
                f"{folder.location} contains {counted(len(files), 'file')}, too many to look into.",
                hint="Name the folder of the logs.",
            )
        if logs := [log for log in for_each(_held_log, files, files) if log is not None]:
            return [*logs, *_empty_of_ranks(files)]
        level = [
            inner for parent in level for inner in parent.folders() if not inner.read(META_FILE)
        ]
    return []


def has_linked_logs(folder: Path) -> bool:
    """Return whether the trace logs of a folder are links, or lie in a folder that is one."""
    trace = folder / TRACE_FOLDER
    return trace.is_symlink() or any(
        path.is_symlink() for place in (trace, folder) for path in place.glob(_LOG_PATTERN)
    )


def _is_named(log: LogFile) -> bool:
    return fnmatchcase(log.path.name, _LOG_PATTERN)


def _empty_of_ranks(files: Iterable[LogFile]) -> list[LogFile]:
    ranked = (file.seen() for file in files if not _is_named(file) and named_rank(file) is not None)
    return [file for file in ranked if file.size_bytes == 0]


def _held_log(file: LogFile) -> LogFile | None:
    seen = file.seen()
    if _is_named(seen):
        return seen
    try:
        with seen.open() as stream:
            head = stream.read(_LOOK_BYTES)
            if b"\0" in head or _archive(head):
                return None
            head += stream.read(_HEAD_BYTES - len(head))
    except CutStreamError:
        return seen  # so that it's reported by name
    return seen if _FIRST_RECORD.search(head) else None


def has_record(file: LogFile) -> bool:
    """Return whether a file is a log; reading it raises ``CutStreamError`` if it ends too early to
    tell.
    """
    with file.open() as stream:
        start = stream.readline(_LOOK_BYTES)
        return not _archive(start) and any(map(_FIRST_RECORD.match, chain([start], stream)))


def hindrance(log: LogFile) -> str | None:
    """Return why a file with records isn't a log that can be read, as a hint; None if it has
    none.
    """
    head = log.part(0, _HEAD_BYTES)
    if kind := _archive(head):
        return f"It's a {kind} archive: name what is in it, {kind}://::{log.location}"
    if match := _INSIDE_A_LINE.search(head):
        before = match[1].decode("utf-8", "replace")
        return f"Each line of its records begins with other text, such as {before!r}: remove that."
    return None


def _archive(head: bytes) -> str | None:
    return "tar" if head[257:262] == b"ustar" else "zip" if head.startswith(b"PK\x03\x04") else None


_HEADER = re.compile(
    rb"^[VDIWEC](\d{4} \d\d:\d\d:\d\d\.\d+) (\d+) [^\]\n]*\] (\{.*)$", re.MULTILINE
)
_RANK_IN_NAME = re.compile(r"(?:^|[_.-])rank[_-]?(\d+)(?=[_.-]|$)")
_RANK_FOLDER = re.compile(r"rank[_-]?(\d+)")
_ATTEMPT_FOLDER = re.compile(r"attempt_\d+")
_SAMPLE_BYTES = 1 << 18
"""Of a log's start and of its end, where its process and its rank are looked for."""


@dataclass(frozen=True)
class ProcessLogs:
    """The logs of one process, in order.

    Args:
        rank: As its records, its log's name or the folder's name has it.
    """

    logs: tuple[LogFile, ...]
    pid: int | None
    rank: int | None


def find_processes(logs: Iterable[LogFile], *, main_pid: int | None) -> list[ProcessLogs]:
    """The processes that began the logs, the main one first; others that share a log are found
    while it is read.

    Without a ``main_pid`` that is the one with the lowest rank, otherwise the one that wrote first.
    Only our own recordings have it. Each of them is of one machine, so only there do logs with one
    process id belong together.
    """
    logs = list(logs)
    # By creation, since the names are random.
    begun = sorted(
        for_each(_process_of, logs, logs),
        key=lambda item: (not item[0], item[0], item[1].logs[0].name),
    )
    processes = _ranked_by_folder(process for _, process in begun)
    if main_pid is not None:
        processes = _joined(processes)
    lowest = min((process.rank for process in processes if process.rank is not None), default=None)
    has_main = main_pid is not None and any(process.pid == main_pid for process in processes)
    main = next(
        (
            process
            for process in processes
            if (process.pid == main_pid if has_main else process.rank == lowest)
        ),
        None,
    )
    return sorted(processes, key=lambda process: process is not main)


def _process_of(log: LogFile) -> tuple[str, ProcessLogs]:
    """The process that began a log, and when."""
    headers = [header for sample in _samples(log) for header in _HEADER.findall(sample)]
    if not headers:
        return "", ProcessLogs((log,), None, named_rank(log))
    time, first, _ = headers[0]
    # Records from before the process joined its group have none.
    ranks = (_recorded_rank(fields) for _, pid, fields in headers if pid == first)
    ranks = (rank for rank in ranks if rank is not None)
    return time.decode(), ProcessLogs((log,), int(first), next(ranks, named_rank(log)))


def _samples(log: LogFile) -> Iterator[bytes]:
    yield log.part(0, _SAMPLE_BYTES)
    if log.is_seekable and (log.size_bytes or 0) > _SAMPLE_BYTES:
        last = log.part(max((log.size_bytes or 0) - _SAMPLE_BYTES, _SAMPLE_BYTES), _SAMPLE_BYTES)
        yield last[last.find(b"\n") + 1 :]


def _recorded_rank(fields: bytes) -> int | None:
    rank = None
    if b'"rank"' in fields:
        with suppress(orjson.JSONDecodeError):
            rank = orjson.loads(fields).get("rank")
    return rank if isinstance(rank, int) else None


def named_rank(log: LogFile) -> int | None:
    """The rank in a log's own name, as torch (``_rank_3_``) and launchers (``rank_3.log``) write
    it.
    """
    match = _RANK_IN_NAME.search(log.path.name)
    return int(match[1]) if match else None


def _folder_rank(log: LogFile) -> int | None:
    # A number alone is a rank below ``attempt_0/``, where torchrun keeps what its workers write
    # (``torch/distributed/elastic/multiprocessing/api.py``, 2.13).
    for folder in (log.path.parent, log.path.parent.parent):
        if match := _RANK_FOLDER.fullmatch(folder.name):
            return int(match[1])
        if folder.name.isdecimal() and _ATTEMPT_FOLDER.fullmatch(folder.parent.name):
            return int(folder.name)
    return None


def _ranked_by_folder(processes: Iterable[ProcessLogs]) -> list[ProcessLogs]:
    """Give the rank that a folder is named after to the first of its processes if none has one."""
    processes = list(processes)
    taken = {process.logs[0].path.parent for process in processes if process.rank is not None}
    for at, process in enumerate(processes):
        folder = process.logs[0].path.parent
        if folder not in taken and (rank := _folder_rank(process.logs[0])) is not None:
            taken.add(folder)
            processes[at] = replace(process, rank=rank)
    return processes


def _joined(processes: Sequence[ProcessLogs]) -> list[ProcessLogs]:
    joined: dict[int, ProcessLogs] = {}
    for process in processes:
        if process.pid is not None:
            before = joined.get(process.pid, ProcessLogs((), process.pid, None))
            joined[process.pid] = ProcessLogs(
                tuple(dict.fromkeys((*before.logs, *process.logs))),
                process.pid,
                process.rank if before.rank is None else before.rank,
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
