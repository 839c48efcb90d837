"""Where a line is, for readers on other machines: relative to the project or to a package.

Comes in: paths of torch or a diagnosis, with the separators of any system. Goes out: paths with ``/``, and URIs.
Reads no file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Finding, Location
    from graphdoctor.facts.stack import StackEntry

_DRIVE = re.compile(r"[A-Za-z]:/")
# Characters that a path may contain unescaped (RFC 3986), except a colon, which could end a scheme.
_PLAIN = "/~!$&'()*+,;=@"


@dataclass(frozen=True)
class Place:
    """A file.

    Args:
        path: With ``/``; relative to ``base``, or absolute without one.
        base: ``SRCROOT``: the folder that graphdoctor ran in; ``PACKAGES``: the folder that holds the package.
    """

    path: str
    base: Literal["SRCROOT", "PACKAGES"] | None

    @property
    def uri(self) -> str:
        """The path percent-encoded, with ``file:`` if it's absolute."""
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
        found: The line; a backslash in its path separates folders on every system.
        root: The folder that relative paths start from; None to keep absolute paths.

    Returns:
        A package's file by its path from the package on, which is the same in every environment; None for what isn't a
        file, such as ``<frozen os>``.
    """
    path = found.file.replace("\\", "/")
    if not path or path.startswith("<"):
        return None
    if found.package is not None and (inside := _in_package(path, found.package)):
        return Place(inside, "PACKAGES")
    return file_place(path, root)


def file_place(file: str, root: Path | None) -> Place:
    """Like ``place_of``, for a file that isn't in a package."""
    path = file.replace("\\", "/")
    if not path.startswith("/") and not _DRIVE.match(path):
        return Place(path.removeprefix("./"), "SRCROOT")
    top = None if root is None else root.as_posix().rstrip("/") + "/"
    if top is not None and path.startswith(top):
        return Place(path.removeprefix(top), "SRCROOT")
    return Place(path, None)


def project_line(finding: Finding, root: Path | None) -> tuple[str, Location | StackEntry] | None:
    """The project's line to show a finding at: its own, or the innermost one that leads to it.

    Returns:
        The path, relative to the folder that graphdoctor ran in, and the line; None if no line is the project's.
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
