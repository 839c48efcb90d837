"""What ``graphdoctor lint`` says of files that were read and never run."""

from __future__ import annotations

from typing import Literal

from graphdoctor.model.base import Fact
from graphdoctor.model.diagnosis import SCHEMA_VERSION, Finding


class UnreadableFile(Fact):
    """A file that could not be linted."""

    file: str
    """Path, relative to the working directory where it lies below it."""
    line: int | None = None
    """1-based line where Python's parser gave up; None when there is none."""
    message: str
    """Why, one sentence."""


class LintReport(Fact):
    """The JSON document of ``graphdoctor lint``."""

    schema_version: str = SCHEMA_VERSION
    """Version of this document's shape; the same as a diagnosis'."""
    graphdoctor_version: str
    """The program that wrote it."""
    file_count: int
    """Files that were given."""
    function_count: int
    """Functions in them that torch compiles."""
    findings: tuple[Finding, ...]
    """By file and line. Their ``count`` is 0: they were seen in no run."""
    ignored_count: int = 0
    """Findings that an ignore comment, ``select`` or ``ignore`` left out."""
    unreadable: tuple[UnreadableFile, ...] = ()
    """Files that could not be read or parsed."""
    notes: tuple[str, ...] = ()
    """What was left out and why, sentences."""

    @property
    def exit_code(self) -> Literal[0, 1, 2]:
        """2 when a file could not be read, else 1 when there are findings, else 0."""
        return 2 if self.unreadable else 1 if self.findings else 0
