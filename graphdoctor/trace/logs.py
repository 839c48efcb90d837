"""Finds which files are trace logs, and the log of each process in one whose lines a launcher has
put a name before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.probe.wire import META_FILE, TRACE_FOLDER
from graphdoctor.trace.processes import named_rank
from graphdoctor.trace.storage.log_file import CutStreamError, LogFile
from graphdoctor.trace.storage.places import Folder, LocalFolder, for_each
from graphdoctor.wording import counted

_LOG_PATTERN = "dedicated_log_torch_trace_*.log"
_RECORD = rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\]\n]*\] \{"
PREFIX = rb"\[[^\[\]\s]{1,64}\]: ?"
_FIRST_RECORD = re.compile(rb"^(%b)?%b" % (PREFIX, _RECORD), re.MULTILINE)
_PREFIXED_RECORD = re.compile(rb"^(%b|)%b" % (PREFIX, _RECORD), re.MULTILINE)
_INSIDE_A_LINE = re.compile(rb"^([^\n]+?)%b" % _RECORD, re.MULTILINE)
_LOOK_BYTES = 2**12
_HEAD_BYTES = 2**18
"""A console's log can begin with what the launcher and its libraries say."""
_SCAN_BYTES = 2**22
_MOST_LEVELS = 5
_MOST_FILES = 10_000


def find_logs(path: Path) -> list[LogFile]:
    """The trace logs in a folder of this machine; links in it are none."""
    return logs_in(LocalFolder(path))


def logs_in(folder: Folder) -> list[LogFile]:
    """The trace logs in a recording's folder or one that torch wrote; of any other, those the
    fewest folders down.
    """
    inner = _named(folder.folder(TRACE_FOLDER).files())
    if inner:
        return inner
    if folder.read(META_FILE):
        return _named(folder.files())
    return next((found for files in _levels(folder) if (found := _held(files, folder))), [])


def possible_logs(folder: Folder) -> list[LogFile]:
    """The files in a folder in which there are logs, or can be later, those that are the fewest
    folders down first.
    """
    inner = _named(folder.folder(TRACE_FOLDER).files())
    return (
        inner
        if inner or folder.read(META_FILE)
        else [log for files in _levels(folder) for log in files]
    )


def _levels(folder: Folder) -> Iterator[list[LogFile]]:
    level = [folder]
    for _ in range(_MOST_LEVELS):
        yield [log for here in level for log in here.files()]
        level = [below for here in level for below in here.folders() if not below.read(META_FILE)]


def has_linked_logs(folder: Path) -> bool:
    """Whether what would be trace logs are links, or are in a folder that is one."""
    trace = folder / TRACE_FOLDER
    return trace.is_symlink() or any(
        path.is_symlink() for place in (trace, folder) for path in place.glob(_LOG_PATTERN)
    )


def _named(files: Iterable[LogFile]) -> list[LogFile]:
    found = [log for log in files if _is_named(log)]
    return for_each(LogFile.seen, found, found)


def _is_named(log: LogFile) -> bool:
    return fnmatchcase(log.path.name, _LOG_PATTERN)


def _held(files: list[LogFile], folder: Folder) -> list[LogFile]:
    if len(files) > _MOST_FILES:
        raise GraphDoctorError(
            f"{folder.location} contains {counted(len(files), 'file')}, too many to look into.",
            hint="Name the folder of the logs.",
        )
    found = [log for held in for_each(held_logs, files, files) for log in held]
    return [*found, *_empty_of_ranks(files)] if found else []


def _empty_of_ranks(files: Iterable[LogFile]) -> list[LogFile]:
    of_ranks = (
        file.seen() for file in files if not _is_named(file) and named_rank(file) is not None
    )
    return [file for file in of_ranks if file.size_bytes == 0]


def held_logs(file: LogFile) -> list[LogFile]:
    """The logs that a file of a folder holds; a file that can't be read counts, so that it's missed
    by name.
    """
    seen = file.seen()
    if _is_named(seen):
        return [seen]
    try:
        with seen.open() as stream:
            head = stream.read(_LOOK_BYTES)
            if b"\0" in head or _archive(head):
                return []
            head += stream.read(_HEAD_BYTES - len(head))
    except CutStreamError:
        return [seen]
    return _logs_from(seen, _FIRST_RECORD.search(head))


def logs_of(log: LogFile) -> list[LogFile]:
    """The log, or one for each process whose name a launcher has put before its lines; none without
    a record.
    """
    with log.open() as stream:
        start = stream.readline(_LOOK_BYTES)
        if _archive(start):
            return []
        lines = chain([start], stream)
        return _logs_from(
            log, next((match for line in lines if (match := _FIRST_RECORD.match(line))), None)
        )


def _logs_from(log: LogFile, first: re.Match[bytes] | None) -> list[LogFile]:
    if first is None:
        return []
    if first[1] is None:
        return [log]
    return [log.of_lines(prefix.decode("utf-8", "replace")) for prefix in _prefixes(log)]


def _prefixes(log: LogFile) -> list[bytes]:
    found: set[bytes] = set()
    # Whoever reads it says where it can't be read further.
    with suppress(CutStreamError), log.open() as stream:
        while lines := stream.readlines(_SCAN_BYTES):
            found.update(_PREFIXED_RECORD.findall(b"".join(lines)))
    return sorted(found)


def hindrance(log: LogFile) -> str | None:
    """Why a file holds records and yet isn't a log that can be read, as a hint; None if it holds
    none.
    """
    head = log.part(0, _HEAD_BYTES)
    if kind := _archive(head):
        return f"It's a {kind} archive: name what is in it, {kind}://::{log.location}"
    match = _INSIDE_A_LINE.search(head)
    before = match[1].decode("utf-8", "replace") if match else None
    return (
        before
        and f"Its records have something before each line, such as {before!r}: remove that from all lines."
    )


def _archive(head: bytes) -> str | None:
    return "tar" if head[257:262] == b"ustar" else "zip" if head.startswith(b"PK\x03\x04") else None
