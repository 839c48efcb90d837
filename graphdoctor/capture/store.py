"""The folder ``.graphdoctor/``: a folder for each recording, the name of the last one, nothing for git."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
from pathlib import Path

from graphdoctor.errors import GraphDoctorError

FOLDER = ".graphdoctor"
_LAST = "last"
_NAME = re.compile(r"\d{8}-\d{6}-\d{6}-")


class Store:
    """Keeps recordings below a working directory.

    Args:
        root: The directory that holds ``.graphdoctor/``.
        keep_count: How many recordings to keep; older ones are removed when a new one begins.
    """

    def __init__(self, root: Path, *, keep_count: int) -> None:
        self._folder = root / FOLDER
        self._keep_count = keep_count

    def create(self, label: str) -> Path:
        """Create the folder of a new recording and remove the oldest recordings.

        Args:
            label: What is recorded, for people who look into the folder.

        Raises:
            GraphDoctorError: The folder can't be written.
        """
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
        name = re.sub(r"[^\w.-]+", "_", label).strip("_.")[:60]
        path = self._folder / f"{stamp}-{name or 'target'}"
        try:
            self._folder.mkdir(exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
            path.mkdir()
        except OSError as error:
            raise GraphDoctorError(
                f"{self._folder} can't be written: {error.strerror}.",
                hint="Run graphdoctor in a directory that you can write to.",
            ) from error
        self._prune(path)
        return path

    def remember(self, recording: Path) -> None:
        """Make a recording the last one."""
        temporary = self._folder / f"{_LAST}.{os.getpid()}"
        try:
            temporary.write_text(recording.name + "\n")
            temporary.replace(self._folder / _LAST)
        except OSError as error:
            raise GraphDoctorError(f"{self._folder} can't be written: {error.strerror}.") from error

    def last(self) -> Path:
        """The last recording.

        Raises:
            GraphDoctorError: There is none.
        """
        recordings = self._recordings()
        with contextlib.suppress(OSError, ValueError):
            path = self._folder / (self._folder / _LAST).read_text().strip()
            if path in recordings:
                return path
        if not recordings:
            raise GraphDoctorError(
                f"There is no recording in {self._folder}.", hint="Run graphdoctor explain model.py first."
            )
        return recordings[-1]

    def _recordings(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if _NAME.match(path.name) and path.is_dir())

    def _prune(self, newest: Path) -> None:
        older = [path for path in self._recordings() if path != newest]
        for path in older[: max(len(older) - self._keep_count + 1, 0)]:
            shutil.rmtree(path, ignore_errors=True)
