"""Where logs can lie: files and folders of this machine, and whatever fsspec reads.

Comes in: a path or an address. Goes out: a ``LogFile`` or a ``Folder``. Links in a folder are neither followed nor
shown: a folder from elsewhere can have links to anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

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
    """An address that fsspec reads, such as ``s3://bucket/job`` or ``zip://::logs.zip``.

    As text, it's without its secrets, since messages and reports show it.
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
        """As ``str`` gives it."""
        return format(str(self), specification)


def without_secrets(text: str) -> str:
    """Text with ``***`` in place of passwords in addresses, and of what signs them."""
    return _SIGNATURE.sub(r"\1?***", _PASSWORD.sub(r"\1***@", text))


Location = Path | Url


class Folder(Protocol):
    """A folder, wherever it lies."""

    @property
    def location(self) -> Location:
        """Where it lies."""

    @property
    def name(self) -> str:
        """Its path below the folder that was asked for; empty for that one."""

    def read(self, name: str) -> bytes:
        """A small file in it; empty if there is none, or if it's a link."""

    def files(self) -> list[LogFile]:
        """The files in it, by name."""

    def folders(self) -> list[Folder]:
        """The folders in it, by name, without hidden ones."""

    def folder(self, name: str) -> Folder:
        """A folder in it; one without anything if there is none, or if it's a link."""


def location_of(text: str) -> Location:
    """What a text names: a path, unless it begins as an address does."""
    if local := _LOCAL_URL.fullmatch(text):
        return Path(local[1])
    return Url(text) if _URL.match(text) else Path(text)


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: Path, name: str = "") -> None:
        self._path = path
        self._name = name

    @property
    def location(self) -> Path:
        """Where it lies."""
        return self._path

    @property
    def name(self) -> str:
        """Its path below the folder that was asked for; empty for that one."""
        return self._name

    def read(self, name: str) -> bytes:
        """A small file in it; empty if there is none, or if it's a link."""
        path = self._path / name
        try:
            return path.read_bytes() if is_own_file(path) else b""
        except OSError:
            return b""

    def files(self) -> list[LogFile]:
        """The files in it, by name."""
        names = sorted(entry.name for entry in self._entries() if entry.is_file(follow_symlinks=False))
        # One that is gone by now was a passing one.
        there = (name for name in names if (self._path / name).exists())
        return [local_log(self._path / name, self._below(name)) for name in there]

    def folders(self) -> list[Folder]:
        """The folders in it, by name, without hidden ones."""
        found = (entry.name for entry in self._entries() if entry.is_dir(follow_symlinks=False))
        return [self.folder(name) for name in sorted(found) if is_shown(name)]

    def folder(self, name: str) -> LocalFolder:
        """A folder in it; one without anything if there is none, or if it's a link."""
        return LocalFolder(self._path / name, self._below(name))

    def _below(self, name: str) -> str:
        return f"{self._name}/{name}" if self._name else name

    def _entries(self) -> list[os.DirEntry[str]]:
        if self._name and self._path.is_symlink():
            return []
        try:
            with os.scandir(self._path) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise GraphDoctorError(f"{self._path} can't be read: {error.strerror}.") from error


def is_own_file(path: Path) -> bool:
    """Whether a file is really in its folder: a recording can come with links to anything, and with pipes."""
    return path.is_file() and not path.is_symlink()


def is_shown(name: str) -> bool:
    """Whether a folder can have logs: hidden ones are of other programs."""
    return not name.startswith(".") and name != "__pycache__"


def place_at(location: Location) -> LogFile | Folder | None:
    """What lies at a place; None if there is nothing.

    Raises:
        GraphDoctorError: It can't be read.
    """
    if isinstance(location, Url):
        # Imported here: a local log is read without fsspec.
        from graphdoctor.trace.storage.remote import remote_place

        return remote_place(location)
    if location.is_file():
        return local_log(location)
    return LocalFolder(location) if location.exists() else None


def for_each(function: Callable[[_Item], _Answer], items: Iterable[_Item], logs: Sequence[LogFile]) -> list[_Answer]:
    """The function's answer for each item; at the same time if the logs aren't on this machine."""
    if len(logs) < 2 or not any(log.is_remote for log in logs):
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(function, items))
