"""Finds logs on this machine or wherever fsspec reads; doesn't follow links inside a folder, which
can lead anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import BinaryIO, TypeVar

from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.trace.storage import remote
from graphdoctor.trace.storage.remote import Url
from graphdoctor.trace.storage.streams import (
    MAGIC,
    Compression,
    CutStreamError,
    decompressed,
    without_prefix,
)

_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9_+-]*::)*[A-Za-z][A-Za-z0-9+.-]+://")
"""Such as ``s3://…``, and ``simplecache::s3://…``."""
_LOCAL_URL = re.compile(r"(?:file|local)://(?:localhost(?=/))?(?!.*::)(.+)")
_THREADS = 16
_SKIPPED_BYTES = 2**20
_PART_BYTES = 2**12

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

Location = Path | Url


def location_of(text: str) -> Location:
    """Read a path or an address."""
    if local := _LOCAL_URL.fullmatch(text):
        return Path(local[1])
    return Url(text) if _URL.match(text) else Path(text)


@dataclass(frozen=True)
class LogFile:
    """One log.

    Args:
        name: Its path below the folder that was asked for.
        size_bytes: None if a store doesn't say.
        line_prefix: What a launcher put before each of its lines, such as ``[rank0]:``; the file's
            other lines belong to other logs. Empty if all lines are its own.
    """

    location: str
    name: str
    size_bytes: int | None
    compression: Compression | None = None
    line_prefix: str = ""

    @property
    def path(self) -> PurePath:
        """Its location as a path, for its names; in an archive, the path there."""
        return PurePath(self.location.partition("::")[0] if self.is_remote else self.location)

    @property
    def is_remote(self) -> bool:
        """Return whether it isn't a file of this machine."""
        return "://" in self.location

    @property
    def is_seekable(self) -> bool:
        """Return whether ``open`` goes to a position without reading what comes before it."""
        return self.compression is None and not self.line_prefix and self.size_bytes is not None

    def seen(self) -> LogFile:
        """Return the log with its compression, which its first bytes show."""
        with suppress(CutStreamError), self._stored(0) as stream:
            start = stream.read(max(map(len, MAGIC)))
            matching = (name for magic, name in MAGIC.items() if start.startswith(magic))
            return replace(self, compression=next(matching, None))
        return self

    def of_lines(self, prefix: str) -> LogFile:
        """Return the log of the lines that begin with a prefix."""
        return replace(self, line_prefix=prefix, name=f"{self.name} {prefix.rstrip(': ')}".rstrip())

    def open(self, start: int = 0) -> BinaryIO:
        """Open the log's bytes, decompressed."""
        if self.is_seekable:
            return self._stored(start)
        stream = self._stored(0)
        if self.compression is not None:
            stream = decompressed(stream, self.compression, self.name)
        if self.line_prefix:
            stream = without_prefix(stream, self.line_prefix.encode())
        while start > 0 and (skipped := stream.read(min(start, _SKIPPED_BYTES))):
            start -= len(skipped)
        return stream

    def _stored(self, start: int) -> BinaryIO:
        if self.is_remote:
            return remote.open_file(self.location, self.name, self.size_bytes, start)
        with os_errors(self.location, "read"):
            stream = Path(self.location).open("rb")  # noqa: SIM115 - whoever reads it closes it
        stream.seek(start)
        return stream

    def part(self, start: int, count: int) -> bytes:
        """Read some of the log's bytes; fewer where it ends or can't be read further."""
        content = bytearray()
        with suppress(CutStreamError), self.open(start) as stream:
            while read := stream.read(min(count - len(content), _PART_BYTES)):
                content += read
        return bytes(content)


def local_log(path: Path, name: str | None = None) -> LogFile:
    """The log in a file of this machine."""
    with os_errors(path, "read"):
        size = path.stat().st_size
    return LogFile(str(path.absolute()), path.name if name is None else name, size).seen()


class Folder:
    """A folder; ``name`` is its path below the folder that was asked for, empty for that one."""

    def __init__(self, location: Location, name: str = "") -> None:
        self.location = location
        self.name = name

    def read(self, name: str) -> bytes:
        """Read a small file; empty if there is none, or if it's a link."""
        place = self._below(name)
        if isinstance(place, Url):
            return remote.read_file(place)
        try:
            return place.read_bytes() if is_own_file(place) else b""
        except OSError:
            return b""

    def files(self) -> list[LogFile]:
        """The files in it, by name."""
        files = []
        for name, is_folder, size in sorted(self._entries()):
            place = self._below(name)
            path = self.path_below(name)
            if is_folder:
                continue
            if isinstance(place, Url):
                files.append(LogFile(place, path, size))
            elif place.exists():  # not gone by now
                files.append(local_log(place, path))
        return files

    def folder(self, name: str) -> Folder:
        """A folder in it; one without anything if there is none, or if it's a link."""
        return Folder(self._below(name), self.path_below(name))

    def folders(self) -> list[Folder]:
        """The folders in it, by name, without hidden ones, which belong to other programs."""
        return [
            self.folder(name)
            for name, is_folder, _ in sorted(self._entries())
            if is_folder and not name.startswith(".") and name != "__pycache__"
        ]

    def path_below(self, name: str) -> str:
        """The path of something in it below the folder that was asked for."""
        return f"{self.name}/{name}" if self.name else name

    def _below(self, name: str) -> Location:
        location = self.location
        return remote.below(location, name) if isinstance(location, Url) else location / name

    def _entries(self) -> list[remote.Entry]:
        location = self.location
        if isinstance(location, Url):
            return remote.entries_of(location)
        if self.name and location.is_symlink():
            return []
        try:
            with os.scandir(location) as entries:
                return [
                    (entry.name, is_folder, None)
                    for entry in entries
                    if (is_folder := entry.is_dir(follow_symlinks=False))
                    or entry.is_file(follow_symlinks=False)
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise GraphDoctorError(f"{location} can't be read: {error.strerror}.") from error


def is_own_file(path: Path) -> bool:
    """Return whether a path is a regular file: a recording can contain links to anything, and
    pipes.
    """
    return path.is_file() and not path.is_symlink()


def place_at(location: Location) -> LogFile | Folder | None:
    """Look at a location; None if there is nothing."""
    if isinstance(location, Url):
        entry = remote.look_at(location)
        if entry is None:
            return None
        name, is_folder, size = entry
        return Folder(location) if is_folder else LogFile(location, name, size).seen()
    if location.is_file():
        return local_log(location)
    return Folder(location) if location.exists() else None


def for_each(
    function: Callable[[_Item], _Answer], items: Iterable[_Item], logs: Sequence[LogFile]
) -> list[_Answer]:
    """Map a function over items; in threads if the logs aren't on this machine."""
    if len(logs) < 2 or not any(log.is_remote for log in logs):
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(function, items))
