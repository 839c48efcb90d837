"""A unified diff as regions of a file and the text that replaces them.

Comes in: a diff in the form of ``Fix.diff``. Goes out: regions with 1-based lines and columns, ends exclusive. A line
ends with LF, as in a diff; a CR before it is part of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Replacement:
    """One region and its new text.

    Args:
        line: First line; the region begins at its column 1.
        end_line: Where it ends: the same line for an insertion, otherwise usually the line after the last deleted one.
        end_column: 1, except at the end of a file whose last line has no newline.
        text: The replacement; empty for a deletion.
    """

    line: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class FileEdit:
    """What a diff does to one file.

    Args:
        path: The diff's path without ``a/``.
        replacements: In order, by the line numbers of the original file.
    """

    path: str
    replacements: tuple[Replacement, ...]


def edits_of(diff: str) -> tuple[FileEdit, ...]:
    """The edits of a diff, one for each file."""
    edits: list[FileEdit] = []
    lines = diff.split("\n")
    at = 0
    path = ""
    found: list[Replacement] = []
    while at < len(lines):
        line = lines[at]
        if line.startswith("--- "):
            if found:
                edits.append(FileEdit(path, tuple(found)))
            path, found = _path(line.removeprefix("--- ")), []
        elif hunk := _HUNK.match(line):
            at, body = _body(lines, at + 1, *(1 if count is None else int(count) for count in hunk.groups()[1:]))
            # An empty range is given by the line before it.
            start = int(hunk[1]) + (1 if hunk[2] == "0" else 0)
            found += _replacements(body, start)
            continue
        at += 1
    if found:
        edits.append(FileEdit(path, tuple(found)))
    return tuple(edits)


@dataclass
class _Run:
    """Adjacent changed lines."""

    line: int
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def replacement(self) -> Replacement:
        end_line, end_column = self.line + len(self.old), 1
        if self.old and not self.old[-1].endswith("\n"):
            end_line, end_column = end_line - 1, len(self.old[-1]) + 1
        return Replacement(self.line, end_line, end_column, "".join(self.new))


def _body(lines: list[str], at: int, old_left: int, new_left: int) -> tuple[int, list[tuple[str, str]]]:
    """A hunk's lines by its counts, since any of them can look like a header.

    Returns:
        The index after it, and each line's mark and text, with the newline if it has one.
    """
    body: list[tuple[str, str]] = []
    while at < len(lines):
        mark, text = lines[at][:1], lines[at][1:]
        if mark == "\\":
            body[-1] = (body[-1][0], body[-1][1].removesuffix("\n"))
        elif old_left <= 0 and new_left <= 0:
            break
        else:
            old_left -= mark != "+"
            new_left -= mark != "-"
            body.append((mark, text + "\n"))
        at += 1
    return at, body


def _replacements(body: list[tuple[str, str]], line: int) -> Iterator[Replacement]:
    run = _Run(line)
    for mark, text in body:
        if mark == "-":
            run.old.append(text)
        elif mark == "+":
            run.new.append(text)
        else:
            if run.old or run.new:
                yield run.replacement()
            run = _Run(run.line + len(run.old) + 1)
    if run.old or run.new:
        yield run.replacement()


def _path(named: str) -> str:
    """The path in a header: a tab ends one with spaces, quotes enclose one with special characters."""
    if named.startswith('"'):
        named = _OCTAL.sub(lambda code: chr(int(code[1], 8)), named.strip()[1:-1])
    return named.removesuffix("\t").removeprefix("a/")
