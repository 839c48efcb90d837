"""Files that people name for a result: looked at before anything runs."""

from __future__ import annotations

import os
from pathlib import Path

from graphdoctor.errors import GraphDoctorError


def check_writable(path: Path, *, force: bool) -> None:
    """Ask before anything runs whether a file can be written.

    Args:
        path: The file.
        force: It may exist.

    Raises:
        GraphDoctorError: It cannot, and why.
    """
    try:
        _check(path, force=force)
    except OSError as error:
        raise GraphDoctorError(f"{path} cannot be written: {error.strerror}.") from error


def _check(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise GraphDoctorError(f"{path} is a folder.", hint="Name a file in it.")
    if path.exists() and not force:
        raise GraphDoctorError(f"{path} exists.", hint="Give --force to overwrite it.")
    if not path.parent.is_dir():
        raise GraphDoctorError(f"There is no folder {path.parent}.", hint="Make it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GraphDoctorError(f"The folder {path.parent} cannot be written to.", hint="Name another with -o.")
