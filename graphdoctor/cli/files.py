"""Files that people name for a result: looked at before anything runs, written at once."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from graphdoctor.errors import GraphDoctorError


def check_writable(path: Path, *, force: bool) -> None:
    """See whether a file could be written.

    Args:
        path: The file.
        force: It may exist.

    Raises:
        GraphDoctorError: It could not.
    """
    try:
        _check_writable(path, force=force)
    except OSError as error:
        raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error


def _check_writable(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise GraphDoctorError(f"{path} is a folder.", hint="Name a file in it.")
    if path.exists() and not force:
        raise GraphDoctorError(f"{path} exists.", hint="Give --force to overwrite it.")
    if not path.parent.is_dir():
        raise GraphDoctorError(f"There is no folder {path.parent}.", hint="Make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GraphDoctorError(f"The folder {path.parent} cannot be written to.", hint="Name another with -o.")


def write_file(text: str, path: Path) -> None:
    """Write to a temporary name and rename, so that nobody ever reads half a file.

    Raises:
        GraphDoctorError: It cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException as error:
        with suppress(OSError):
            Path(temporary).unlink()
        if isinstance(error, OSError):
            raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error
        raise
