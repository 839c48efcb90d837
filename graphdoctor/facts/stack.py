"""A line of a traceback, who owns its file, and code as a tree."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from . import shared
from .base import Fact

TRACEBACK_LINE = re.compile(r'^  File "(.+)", line (\d+), in (.+)\n(?:    (.+)\n)?', re.MULTILINE)
"""A line of a traceback as Python prints it: file, number, function, and the code if it is
known."""
RESUME_NAME = re.compile(r"^(?:torch_dynamo_resume_in_)+(.+)_at_(\d+)$")
"""A resume function's code name (``torch/_dynamo/resume_execution.py``, 2.13): function name and
line."""
Origin = Literal["user", "third_party", "generated", "stdlib", "torch"]
"""Who owns a file: the user, an installed package, Python's standard library, or torch.
``generated``: the program wrote it during the run, outside the project; it is named by what made
it."""

PROGRAM_ORIGINS: tuple[Origin, ...] = ("user", "third_party", "generated")
"""Owners of what a program runs apart from torch and Python itself."""

ORIGINS: tuple[Origin, ...] = (*PROGRAM_ORIGINS, "torch", "stdlib")
"""All owners, the nearest to the user first."""


def resumed(name: str) -> tuple[str, int | None]:
    """Return the function that a code object's name is of, and the line at which it resumes it;
    None if it doesn't.
    """
    match = RESUME_NAME.match(name)
    return (name, None) if match is None else (match[1], int(match[2]))


@lru_cache(maxsize=4096)  # asked for every node of every graph
def relative(file: str, root: Path) -> str:
    """Return the path to show: relative to ``root`` if it is below it."""
    path = Path(file)
    return str(path.relative_to(root)) if path.is_relative_to(root) else file


class StackEntry(Fact):
    """One line of a traceback, or of a finding."""

    file: shared.File
    """Path as torch printed it, which can also be ``<frozen os>`` and the like; of a finding,
    relative to the working directory if it is below it."""
    line: int
    """1-based line."""
    function: str
    """Name of the function; of a finding, its qualified name if that is known."""
    qualname: str | None = None
    """Qualified name of the enclosing class and function; None if the source couldn't be read, and
    for a finding."""
    text: str | None = None
    """The source line as it was when the run was recorded, without its indentation."""
    column: int | None = None
    """1-based column where the expression starts; None if unknown."""
    end_column: int | None = None
    """1-based column after the end of the expression; None if it ends on another line or is
    unknown."""
    indent: int | None = None
    """Width of the indentation that was removed from ``text``."""
    origin: Origin = "user"
    package: str | None = None
    """Top-level package of a third-party or torch file, such as ``transformers``."""
    note: str | None = None
    """Relation of the line to a finding; None if it isn't a related line of one."""

    @property
    def at(self) -> tuple[str, int]:
        """File and line."""
        return self.file, self.line

    def located(self, root: Path, note: str | None = None) -> StackEntry:
        """Return the line as the location of a finding, or as a related one with a note."""
        file, function = relative(self.file, root), self.qualname or self.function
        return self.replace(file=file, function=function, qualname=None, note=note)

    @property
    def shown_file(self) -> str:
        """The path to show: for a file of a package, from the package on."""
        if self.package is not None:
            _, found, rest = self.file.replace("\\", "/").rpartition(f"/{self.package}/")
            if found:
                return f"{self.package}/{rest}"
        return self.file

    @property
    def shown(self) -> str:
        """The place to show: ``shown_file`` and the line."""
        return f"{self.shown_file}:{self.line}"


def innermost(stack: Sequence[StackEntry]) -> StackEntry | None:
    """Return the innermost line of the program; None if there is none."""
    return next((entry for entry in reversed(stack) if entry.origin in PROGRAM_ORIGINS), None)


def parsed(code: str | bytes) -> ast.Module | None:
    """Return the tree of code, without what Python warns about in it; None if this version of
    Python can't parse it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
