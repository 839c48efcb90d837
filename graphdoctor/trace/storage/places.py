"""Where logs can lie: here, or wherever fsspec reads. Links in a folder, which can lead anywhere,
aren't followed.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.storage.log_file import LogFile, local_log

_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9_+-]*::)*[A-Za-z][A-Za-z0-9+.-]+://")
"""Such as ``s3://…``, and ``simplecache::s3://…``."""
_LOCAL_URL = re.compile(r"(?:file|local)://(?:localhost(?=/))?(?!.*::)(.+)")
_PASSWORD = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@")
_SIGNATURE = re.compile(r"(https?://[^?\s]*)\?.*?(?=::|[\s'\")]|$)")
_THREADS = 16

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class Url(str):
    """An address that fsspec reads, such as ``s3://bucket/job``; as text, it's without its
    secrets.
    """

    __slots__ = ()

    @property
    def whole(self) -> str:
        """The address with its secrets, to open it."""
        return str.__str__(self)

    def __str__(self) -> str:
        """The address to show: ``***`` in place of a password, or of what signs it."""
        return without_secrets(self.whole)

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)


def without_secrets(text: str) -> str:
    """Text with ``***`` in place of passwords in addresses, and of what signs them."""
    return _SIGNATURE.sub(r"\1?***", _PASSWORD.sub(r"\1***@", text))


Location = Path | Url


class Folder(ABC):
    """A folder, wherever it lies; ``name`` is its path below the folder that was asked for, empty
    for that one.
    """

    location: Location

    def __init__(self, location: Location, name: str = "") -> None:
        self.location = location
        self.name = name

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A small file in it; empty if there is none, or if it's a link."""

    @abstractmethod
    def _entries(self) -> list[tuple[str, bool, int | None]]:
        """The name of each thing in it, whether it's a folder, and its size."""

    @abstractmethod
    def _below(self, name: str) -> Location:
        """Where something in it lies."""

    @abstractmethod
    def _log(self, name: str, size: int | None) -> LogFile | None:
        """A file in it; None if it is gone by now."""

    def files(self) -> list[LogFile]:
        """The files in it, by name."""
        found = (
            self._log(name, size)
            for name, is_folder, size in sorted(self._entries())
            if not is_folder
        )
        return [log for log in found if log is not None]

    def folder(self, name: str) -> Folder:
        """A folder in it; one without anything if there is none, or if it's a link."""
        return type(self)(self._below(name), self.path_below(name))

    def folders(self) -> list[Folder]:
        """The folders in it, by name, without hidden ones, which are of other programs."""
        names = sorted(name for name, is_folder, _ in self._entries() if is_folder)
        return [
            self.folder(name)
            for name in names
            if not name.startswith(".") and name != "__pycache__"
        ]

    def path_below(self, name: str) -> str:
        """The path of something in it below the folder that was asked for."""
        return f"{self.name}/{name}" if self.name else name


def location_of(text: str) -> Location:
    """What a text names: a path, unless it begins as an address does."""
    if local := _LOCAL_URL.fullmatch(text):
        return Path(local[1])
    return Url(text) if _URL.match(text) else Path(text)


class LocalFolder(Folder):
    """A folder of this machine."""

    location: Path

    def read(self, name: str) -> bytes:
        """See ``Folder``."""
        path = self._below(name)
        try:
            return path.read_bytes() if is_own_file(path) else b""
        except OSError:
            return b""

    def _below(self, name: str) -> Path:
        return self.location / name

    def _log(self, name: str, size: int | None) -> LogFile | None:
        del size
        path = self._below(name)
        return local_log(path, self.path_below(name)) if path.exists() else None

    def _entries(self) -> list[tuple[str, bool, int | None]]:
        if self.name and self.location.is_symlink():
            return []
        try:
            with os.scandir(self.location) as entries:
                kinds = [(each.name, each.is_dir(follow_symlinks=False), each) for each in entries]
                return [
                    (name, is_dir, None)
                    for name, is_dir, each in kinds
                    if is_dir or each.is_file(follow_symlinks=False)
                ]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise GraphDoctorError(f"{self.location} can't be read: {error.strerror}.") from error


def is_own_file(path: Path) -> bool:
    """Whether a file is really in its folder: a recording can come with links to anything, and with
    pipes.
    """
    return path.is_file() and not path.is_symlink()


def place_at(location: Location) -> LogFile | Folder | None:
    """What lies at a place; None if there is nothing."""
    if isinstance(location, Url):
        # Imported here: a local log is read without fsspec.
        from graphdoctor.trace.storage.remote import remote_place

        return remote_place(location)
    if location.is_file():
        return local_log(location)
    return LocalFolder(location) if location.exists() else None


def for_each(
    function: Callable[[_Item], _Answer], items: Iterable[_Item], logs: Sequence[LogFile]
) -> list[_Answer]:
    """The function's answer for each item; at the same time if the logs aren't on this machine."""
    if len(logs) < 2 or not any(log.is_remote for log in logs):
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(function, items))
