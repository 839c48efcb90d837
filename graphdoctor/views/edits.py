"""Unified diffs as regions that replace others, and as rows to read.

Comes in: a diff in the form of ``Fix.diff``. Goes out: regions with 1-based lines and columns, ends
exclusive, or rows for a unified and a side-by-side view. A line ends with LF, as in a diff; a CR
before it is part of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Literal

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)")
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class _Hunk:
    path: str
    heading: str
    old_line: int
    new_line: int
    lines: tuple[tuple[str, str], ...]
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
        edits.setdefault(hunk.path, []).extend(_replacements(hunk))
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
        for is_same, lines in groupby(hunk.lines, lambda line: line[0] not in ("-", "+")):
            out = list(lines)
            before, after = (
                [text.removesuffix("\n") for mark, text in out if mark != other] for other in "+-"
            )
            for number, (was, now) in enumerate(zip_longest(before, after)):
                numbers = (
                    None if was is None else old + number,
                    None if now is None else new + number,
                )
                yield DiffRow("same" if is_same else "changed", was, now, *numbers)
            old, new = old + len(before), new + len(after)


def _hunks(diff: str) -> Iterator[_Hunk]:
    lines, at, path = diff.split("\n"), 0, ""
    while at < len(lines):
        if hunk := _HUNK.match(lines[at]):
            old, old_count, new, new_count = (
                1 if number is None else int(number) for number in hunk.groups()[:4]
            )
            at, body = _body(lines, at + 1, old_count, new_count)
            # An empty range is given by the line before it.
            yield _Hunk(
                path, hunk[5].strip(), old + (not old_count), new + (not new_count), tuple(body)
            )
            continue
        if lines[at].startswith("--- "):
            path = _path(lines[at].removeprefix("--- "))
        at += 1


def _body(
    lines: list[str], at: int, old_left: int, new_left: int
) -> tuple[int, list[tuple[str, str]]]:
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


def _replacements(hunk: _Hunk) -> Iterator[Replacement]:
    line = hunk.old_line
    for is_changed, lines in groupby(hunk.lines, lambda item: item[0] in ("-", "+")):
        out = list(lines)
        old = [text for mark, text in out if mark != "+"]
        end_line, end_column = line + len(old), 1
        if is_changed:
            if old and not old[-1].endswith("\n"):
                end_line, end_column = end_line - 1, len(old[-1]) + 1
            yield Replacement(
                line, end_line, end_column, "".join(text for mark, text in out if mark == "+")
            )
        line += len(old)


def _path(named: str) -> str:
    if named.startswith('"'):
        named = _OCTAL.sub(lambda code: chr(int(code[1], 8)), named.strip()[1:-1])
    return named.removesuffix("\t").removeprefix("a/")
