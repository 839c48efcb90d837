"""Writes rendered text to a file."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from graphdoctor.errors import GraphDoctorError


def write_file(content: str | bytes, path: Path) -> None:
    """Write to a temporary file and rename it, so nobody reads half a file; a device or a pipe is
    written to as it is.

    Raises:
        GraphDoctorError: The file can't be written.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.write(data)
            return
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise GraphDoctorError(f"Can't write {path}: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException as error:
        with suppress(OSError):
            Path(temporary).unlink()
        if isinstance(error, OSError):
            raise GraphDoctorError(f"Can't write {path}: {error.strerror}.") from error
        raise
