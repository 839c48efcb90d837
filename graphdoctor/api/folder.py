"""The recording's folder, which lives as long as the objects that read it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class RecordingFolder:
    """A temporary folder that is removed with this object, or when the process ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="graphdoctor-"))
        self._remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Remove it now."""
        self._remove()


def _remove(path: Path, pid: int) -> None:
    # A forked process has a copy of the object but doesn't own the folder.
    if os.getpid() == pid:
        shutil.rmtree(path, ignore_errors=True)
