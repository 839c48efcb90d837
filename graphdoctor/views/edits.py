"""Unified diffs as regions that replace others, and as rows to read.

Comes in: a diff in the form of ``Fix.diff``. Goes out: regions with 1-based lines and columns, ends
exclusive, or rows for a unified and a side-by-side view. A line ends with LF, as in a diff; a CR
before it is part of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Literal

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass
class _Hunk:
    path: str
    heading: str
    old_line: int
    new_line: int
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Each line's mark and text, with its newline if it has one."""


@dataclass(frozen=True)
class Replacement:
    """One region, which begins at the first column of a line, and its new text."""

    line: int
    end_line: int
    """The same line for an insertion, otherwise usually the line after the last deleted one."""
    end_column: int
    """1, except at the end of a file whose last line has no newline."""
    text: str


@dataclass(frozen=True)
class DiffRow:
    """One row of a diff, for both views; ``file`` and ``hunk`` rows hold their text in ``old``."""

    kind: Literal["file", "hunk", "same", "changed"]
    old: str | None = None
    new: str | None = None
    old_number: int | None = None
    new_number: int | None = None


def edits_of(diff: str) -> dict[str, list[Replacement]]:
    """Read what a diff does to each file, by its path without ``a/``, in the order of the
    original's lines.
    """
    edits: dict[str, list[Replacement]] = {}
    for hunk in _hunks(diff):
        replacements, line = edits.setdefault(hunk.path, []), hunk.old_line
        for is_same, before, after in _runs(hunk):
            end_line, end_column = line + len(before), 1
            if not is_same:
                if before and not before[-1].endswith("\n"):
                    end_line, end_column = end_line - 1, len(before[-1]) + 1
                replacements.append(Replacement(line, end_line, end_column, "".join(after)))
            line += len(before)
    return edits


def diff_rows(diff: str) -> Iterator[DiffRow]:
    """Pair removed lines with those that replace them."""
    path = None
    for hunk in _hunks(diff):
        if hunk.path != path:
            path = hunk.path
            yield DiffRow("file", path)
        yield DiffRow("hunk", hunk.heading)
        old, new = hunk.old_line, hunk.new_line
        for is_same, *sides in _runs(hunk):
            before, after = ([text.removesuffix("\n") for text in side] for side in sides)
            for number, (was, now) in enumerate(zip_longest(before, after)):
                old_number = None if was is None else old + number
                new_number = None if now is None else new + number
                kind: Literal["same", "changed"] = "same" if is_same else "changed"
                yield DiffRow(kind, was, now, old_number, new_number)
            old, new = old + len(before), new + len(after)


def _runs(hunk: _Hunk) -> Iterator[tuple[bool, list[str], list[str]]]:
    """Yield lines that stay, or that replace each other: before and after."""
    for is_same, lines in groupby(hunk.lines, lambda line: line[0] not in ("-", "+")):
        run = list(lines)
        before, after = ([text for mark, text in run if mark != other] for other in "+-")
        yield is_same, before, after


def _hunks(diff: str) -> Iterator[_Hunk]:
    hunk, path, old_left, new_left = None, "", 0, 0
    for line in diff.split("\n"):
        mark, text = line[:1], line[1:]
        if hunk is not None and mark == "\\":
            last_mark, last = hunk.lines[-1]
            hunk.lines[-1] = (last_mark, last.removesuffix("\n"))
        elif hunk is not None and (old_left > 0 or new_left > 0):
            old_left -= mark != "+"
            new_left -= mark != "-"
            hunk.lines.append((mark, text + "\n"))
        elif head := _HUNK.match(line):
            if hunk is not None:
                yield hunk
            old, old_left, new, new_left = (
                1 if number is None else int(number) for number in head.groups()[:4]
            )
            # An empty range is given by the line before it.
            hunk = _Hunk(path, head[5].strip(), old + (not old_left), new + (not new_left))
        elif line.startswith("--- "):
            path = line.removeprefix("--- ")
            if path.startswith('"'):
                path = _OCTAL.sub(lambda code: chr(int(code[1], 8)), path.strip()[1:-1])
            path = path.removesuffix("\t").removeprefix("a/")
    if hunk is not None:
        yield hunk
