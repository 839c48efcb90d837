"""What ``graphdoctor lint`` finds in source files, without running them."""

from __future__ import annotations

from typing import Literal

from .base import Document, Fact
from .diagnosis import Finding


class UnreadableFile(Fact):
    """A file that couldn't be checked."""

    file: str
    """Path, relative to the working directory if it is below it."""
    line: int | None = None
    """1-based line of the syntax error; None if there is none."""
    message: str
    """Why, one sentence."""


class LintReport(Document):
    """The JSON document of ``graphdoctor lint``."""

    file_count: int
    function_count: int
    """How many functions in them torch compiles."""
    findings: tuple[Finding, ...]
    """New findings by file and line. Their ``count`` is 0, because nothing was run."""
    failing_count: int = 0
    """How many of them are at or above their project's ``fail-on``."""
    known: tuple[Finding, ...] = ()
    """Findings that their project's baseline knows, by file and line."""
    ignored_count: int = 0
    """How many findings an ignore comment, ``per-path-ignores``, ``select`` or ``ignore`` left
    out."""
    recording: str | None = None
    """The recording whose functions and settings count; None if there is none or none was to be
    used."""
    unreadable: tuple[UnreadableFile, ...] = ()
    """Files that couldn't be read or parsed."""
    notes: tuple[str, ...] = ()
    """What was left out and why, in sentences."""

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """2 if a file couldn't be read, otherwise 1 if a finding fails, otherwise 0."""
        return 2 if self.unreadable else 1 if self.failing_count else 0
