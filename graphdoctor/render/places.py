"""Where a line is, for readers that are not on this machine: relative to the project or to a package.

Comes in: paths as torch or a diagnosis names them, with either system's separators. Goes out: paths with ``/``, URIs.
Reads no file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from graphdoctor.model.diagnosis import Finding, Location
from graphdoctor.model.stack import StackEntry

_DRIVE = re.compile(r"[A-Za-z]:/")
# What a path may hold as it is (RFC 3986); a colon could end a scheme.
_PLAIN = "/~!$&'()*+,;=@"


@dataclass(frozen=True)
class Place:
    """A file.

    Args:
        path: With ``/``; relative to ``base``, absolute without one.
        base: ``SRCROOT``: the folder that graphdoctor was run in; ``PACKAGES``: the one that holds the package.
    """

    path: str
    base: Literal["SRCROOT", "PACKAGES"] | None

    @property
    def uri(self) -> str:
        """The path percent-encoded; with ``file:`` where it is absolute."""
        if self.base is not None:
            return _quoted(self.path)
        if self.path.startswith("//"):
            return "file:" + _quoted(self.path)
        if _DRIVE.match(self.path):
            return f"file:///{self.path[:2]}{_quoted(self.path[2:])}"
        return "file://" + _quoted(self.path)


def place_of(found: Location | StackEntry, root: Path | None) -> Place | None:
    """Where a line is.

    Args:
        found: The line; a backslash in its path separates folders, on every system.
        root: The folder that relative paths start from; None where no absolute path is to be made relative.

    Returns:
        A package's file from the package on, so that another environment gives the same; None for what is no file,
        such as ``<frozen os>``.
    """
    path = found.file.replace("\\", "/")
    if not path or path.startswith("<"):
        return None
    if found.package is not None and (inside := _in_package(path, found.package)):
        return Place(inside, "PACKAGES")
    return file_place(path, root)


def file_place(file: str, root: Path | None) -> Place:
    """As ``place_of``, for a file that is known to be one and no package's."""
    path = file.replace("\\", "/")
    if not path.startswith("/") and not _DRIVE.match(path):
        return Place(path.removeprefix("./"), "SRCROOT")
    top = None if root is None else root.as_posix().rstrip("/") + "/"
    if top is not None and path.startswith(top):
        return Place(path.removeprefix(top), "SRCROOT")
    return Place(path, None)


def project_line(finding: Finding, root: Path | None) -> tuple[str, Location | StackEntry] | None:
    """The line of the project that a finding is shown at: its own, or the innermost one that leads to it.

    Returns:
        The path, relative to the folder that graphdoctor was run in, and the line; None where none is the project's.
    """
    lines: list[Location | StackEntry] = [finding.location, *reversed(finding.user_stack)]
    for found in lines:
        place = place_of(found, root)
        if found.origin == "user" and place is not None and place.base == "SRCROOT" and found.line > 0:
            return place.path, found
    return None


def _in_package(path: str, package: str) -> str | None:
    _, found, rest = path.rpartition(f"/{package}/")
    if found:
        return f"{package}/{rest}"
    return f"{package}.py" if path.endswith(f"/{package}.py") else None


def _quoted(path: str) -> str:
    return quote(path, safe=_PLAIN, errors="replace")
