"""The folder that artifacts are written to: new files in it alone, wherever the names in a log come from.

Comes in: a folder that the user named, then folders and names inside it that are safe. Goes out: files. Nothing is
written through a link, and what can't be written is a ``GraphDoctorError``.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.artifact_names import FileNames

INDEX = "index.json"

_MAX_KNOWN = 256
"""Folders whose names are kept in memory; a compile's records come close together."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _new_file(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666), "wb")


class Folder:
    """Files in a folder; used in a ``with`` block.

    Raises:
        GraphDoctorError: It is no folder, has something in it, or can't be written.
    """

    def __init__(self, root: Path, *, is_replacing: bool) -> None:
        self._root = root
        self._is_replacing = is_replacing
        self._names: OrderedDict[str, FileNames] = OrderedDict()
        self._made: set[str] = set()
        self._gathered: dict[str, int] = {}
        self._open: tuple[str, BinaryIO] | None = None
        self.files = 0
        self.bytes = 0
        try:
            root.mkdir(parents=True, exist_ok=True)
            is_empty = next(root.iterdir(), None) is None
        except FileExistsError as error:
            raise GraphDoctorError(f"{root} is a file, not a folder.") from error
        except OSError as error:
            raise GraphDoctorError(f"Can't write to {root}: {error.strerror}.") from error
        if not (is_empty or is_replacing):
            raise GraphDoctorError(
                f"{root} isn't empty.", hint="Name another folder, or add --force to replace files in it."
            )

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()
        if isinstance(error, OSError):
            raise GraphDoctorError(
                f"Can't write to {self._root}: {error.strerror or error}.",
                hint=f"{self.files} files were written before; without {INDEX}, the folder is incomplete.",
            ) from error

    def write(self, folder: str, stem: str, suffix: str, content: bytes) -> str:
        """Write a file under a name that is free."""
        name = self._names_in(folder).take(stem, suffix)
        path = f"{folder}/{name}" if folder else name
        with self.create(path) as file:
            file.write(content)
        self.bytes += len(content)
        return path

    def gather(self, path: str, item: bytes) -> int:
        """Add an item to a JSON list that is a file of its own."""
        if self._open is None or self._open[0] != path:
            self._close()
            if path not in self._gathered:
                folder, _, name = path.rpartition("/")
                stem, dot, ending = name.rpartition(".")
                self._names_in(folder).take(stem, dot + ending)
                self._gathered[path] = 0
                self._open = path, self.create(path)
            else:
                self._open = path, self._again(path)
        number = self._gathered[path]
        self._gathered[path] += 1
        self._open[1].write((b",\n" if number else b"[\n") + item)
        self.bytes += len(item)
        return number

    def end_lists(self) -> None:
        """End the lists that ``gather`` began."""
        self._close()
        for path in self._gathered:
            with self._again(path) as file:
                file.write(b"\n]\n")

    def create(self, path: str) -> BinaryIO:
        """A new file."""
        whole = self._root / path
        self._make(path.rpartition("/")[0])
        try:
            found = _new_file(whole)
        except FileExistsError:
            if not self._is_replacing:
                raise
            whole.unlink()
            found = _new_file(whole)
        self.files += 1
        return found

    def finish(self, path: str, name: str) -> None:
        """Give a file that is whole now its name."""
        (self._root / path).replace(self._root / name)

    def _again(self, path: str) -> BinaryIO:
        return os.fdopen(os.open(self._root / path, os.O_WRONLY | os.O_APPEND | _NO_LINK), "ab")

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _make(self, folder: str) -> None:
        """Make a folder and those above it; one that is a link isn't written to."""
        if not folder or folder in self._made:
            return
        self._make(folder.rpartition("/")[0])
        whole = self._root / folder
        if whole.is_symlink():
            raise GraphDoctorError(f"{whole} is a symbolic link, and nothing is written through links.")
        whole.mkdir(exist_ok=True)
        self._made.add(folder)

    def _names_in(self, folder: str) -> FileNames:
        """The names in a folder, read again from disk if they were forgotten."""
        found = self._names.get(folder)
        if found is None:
            is_known = folder in self._made and not self._is_replacing
            found = FileNames(path.name for path in (self._root / folder).iterdir()) if is_known else FileNames()
            if not folder:
                found.take("index", ".json")
            self._names[folder] = found
            if len(self._names) > _MAX_KNOWN and not self._is_replacing:
                self._names.popitem(last=False)
        self._names.move_to_end(folder)
        return found
