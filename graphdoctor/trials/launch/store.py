"""The folder ``.graphdoctor/``: a folder for each recording, the name of the last one, nothing for
git.

Links below it are never followed: a checkout can come with any.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

from graphdoctor.errors import GraphDoctorError
from graphdoctor.probe.wire import (
    ACCURACY_FILE,
    BENCH_FILE,
    CURE_FILE,
    EXPORT_FILE,
    FIXES_FILE,
    KEPT_FILE,
    LOCK_FILE,
    PROFILE_FILE,
    TRACE_FOLDER,
    WHAT_IF_FILE,
)
from graphdoctor.trace.folder import is_in_use

STATE_VARIABLE = "XDG_STATE_HOME"


def state_folder() -> Path | None:
    """``$XDG_STATE_HOME/graphdoctor``, by default below ``~/.local/state``; None for a user without
    a home.

    A relative path doesn't count, as the XDG Base Directory Specification says.
    """
    asked = os.environ.get(STATE_VARIABLE, "")
    try:
        base = Path(asked) if Path(asked).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return base / "graphdoctor"


FOLDER = ".graphdoctor"
_LAST = "last"
_NAME = re.compile(r"\d{8}-\d{6}-\d{6}-")
_RESULTS = (
    ACCURACY_FILE,
    BENCH_FILE,
    CURE_FILE,
    EXPORT_FILE,
    FIXES_FILE,
    PROFILE_FILE,
    WHAT_IF_FILE,
)

Pool = Literal["", "@check", "@survey"]
"""What replaces each other: recordings of the gate's targets, however many, surveys, and all other
recordings."""

_PROGRAMS = "programs"


@dataclass(frozen=True)
class NewRecording:
    """A recording that is being made, which nobody removes until this object is gone or its process
    has died.
    """

    path: Path
    _lock: IO[bytes]
    removed: tuple[str, ...] = ()
    """Older ones that were removed for it."""

    def close(self) -> None:
        """Let it be removed when its time has come."""
        self._lock.close()


class Store:
    """Keeps recordings below a working directory."""

    def __init__(self, root: Path, *, keep_count: int, folder: Path | None = None) -> None:
        self._folder = folder or root / FOLDER
        self._is_own_name = folder is None
        self._keep_count = keep_count

    def create(self, label: str, pool: Pool = "") -> NewRecording:
        """Create the folder of a new recording, make it the last one, and remove the oldest of its
        pool.

        What took many runs is counted apart from single runs, and what has a name is kept.
        """
        name = f"{datetime.datetime.now().strftime('%Y%m%d-%H%M%S-%f')}-{_plain(label)}{pool}"
        try:
            made = self._make(name, pool)
        except OSError as error:
            raise unwritable(self._folder, error) from error
        pooled = [
            path for path in self._recordings if _pool_of(path) == pool and name_of(path) is None
        ]
        results = [path for path in pooled if any((path / file).exists() for file in _RESULTS)]
        single = [path for path in pooled if path not in results]
        old = [
            path
            for recordings in (single, results)
            for path in recordings[: max(len(recordings) - self._keep_count, 0)]
        ]
        removed = [path for path in old if path != made.path and not is_in_use(path)]
        for path in removed:
            shutil.rmtree(path, ignore_errors=True)
        return replace(made, removed=tuple(path.name for path in removed))

    def _make(self, name: str, pool: Pool) -> NewRecording:
        folder = self._folder
        if self._is_own_name and folder.is_symlink():
            raise GraphDoctorError(
                f"{folder} is a symbolic link, and recordings don't go through links.",
                hint="Remove it, or name the folder that you want: --recordings DIR.",
            )
        is_new = not folder.is_dir()
        if is_new:
            folder.mkdir(parents=folder.name != FOLDER, exist_ok=True)
        if is_new or folder.name == FOLDER:
            _write_new(folder / ".gitignore", "*\n")
        # Locked before it has a name by which others would look for recordings to remove.
        hidden = folder / f".{name}"
        hidden.mkdir(mode=0o700)
        try:
            # torch would make it for everybody.
            (hidden / TRACE_FOLDER).mkdir(mode=0o700)
            lock = _locked(hidden)
            path = hidden.rename(folder / name)
            if pool != "@survey":
                _write_new(note := folder / f".{_LAST}-{name}", name + "\n")
                note.replace(folder / _LAST)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        return NewRecording(path, lock)

    def last(self) -> Path:
        """Find the last recording."""
        recordings = [path for path in self._recordings if _pool_of(path) != "@survey"]
        if not recordings:
            raise GraphDoctorError(
                f"There is no recording in {self._folder}.",
                hint="Run graphdoctor explain model.py first.",
            )
        note = self._folder / _LAST
        with contextlib.suppress(OSError, ValueError):
            path = self._folder / note.read_text().strip()
            if path in recordings and not note.is_symlink():
                return path
        return recordings[-1]

    def newest(self, *pools: Pool) -> list[Path]:
        """List the recordings of pools, the newest first; by default, what commands for one target
        made.
        """
        return [path for path in reversed(self._recordings) if _pool_of(path) in (pools or ("",))]

    def surveys(self, label: str | None = None) -> list[Path]:
        """Surveys, the newest first."""
        folder_name = None if label is None else f"{_plain(label)}@survey"
        return [
            path
            for path in self.newest("@survey")
            if folder_name in (None, _NAME.sub("", path.name))
        ]

    @staticmethod
    def hold(path: Path) -> IO[bytes]:
        """Keep a survey from being removed until what this returns is closed."""
        try:
            return _locked(path)
        except OSError as error:
            raise unwritable(path, error) from error

    @property
    def programs(self) -> Path:
        """Return the folder for programs that catalogs write."""
        return self._folder / _PROGRAMS

    def find(self, name: str) -> Path | None:
        """Find the recording of a name, its own or one that it was given, or None."""
        named = (path for path in self._recordings if name in (path.name, name_of(path)))
        return next(named, None)

    @staticmethod
    def keep(path: Path, name: str | None) -> None:
        """Give a recording a name, so that nothing removes it; None takes the name away."""
        try:
            (path / KEPT_FILE).unlink(missing_ok=True)
            if name is not None:
                _write_new(path / KEPT_FILE, f"{name}\n")
        except OSError as error:
            raise unwritable(path, error) from error

    @property
    def _recordings(self) -> list[Path]:
        """The recordings, the oldest first."""
        is_link = self._is_own_name and self._folder.is_symlink()
        return sorted(
            path
            for path in (self._folder.iterdir() if self._folder.is_dir() and not is_link else ())
            if _NAME.match(path.name) and path.is_dir() and not path.is_symlink()
        )


def made_at(recording: Path) -> datetime.datetime | None:
    """When a recording was made, in local time; None if its name doesn't say."""
    with contextlib.suppress(ValueError):
        return datetime.datetime.strptime(recording.name[:15], "%Y%m%d-%H%M%S")
    return None


def name_of(recording: Path) -> str | None:
    """Read the name that a recording was given; None if it has none."""
    file = recording / KEPT_FILE
    with contextlib.suppress(OSError, ValueError):
        return file.read_text(encoding="utf-8").strip() or None if not file.is_symlink() else None
    return None


def _locked(recording: Path) -> IO[bytes]:
    lock = os.fdopen(
        os.open(recording / LOCK_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb"
    )
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _plain(label: str) -> str:
    return re.sub(r"[^\w.-]+", "_", label).strip("_.")[:60] or "target"


def _pool_of(path: Path) -> str:
    name, at, rest = path.name.rpartition("@")
    return at + rest if name else ""


def _write_new(path: Path, text: str) -> None:
    """Write a file unless there is something of its name, a link that leads nowhere included."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)


def unwritable(folder: Path, error: OSError) -> GraphDoctorError:
    """Describe why a folder of recordings can't be written."""
    return GraphDoctorError(
        f"{folder} can't be written: {error.strerror}.",
        hint="--recordings DIR puts recordings into another folder.",
    )
