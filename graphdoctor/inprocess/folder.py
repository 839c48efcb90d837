"""The recording's folder: it lives as long as whoever can still ask for what is in it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class RecordingFolder:
    """A temporary folder that goes when this object does, or with the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="graphdoctor-"))
        self._remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Let it go now."""
        self._remove()


def _remove(path: Path, pid: int) -> None:
    # A forked process has a copy of the object, but the folder is not its own.
    if os.getpid() == pid:
        shutil.rmtree(path, ignore_errors=True)
