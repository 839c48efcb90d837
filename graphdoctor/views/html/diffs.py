"""A unified diff as rows, for a unified and a side-by-side view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$")


@dataclass(frozen=True)
class DiffRow:
    """One row of a diff, for both views.

    Args:
        kind: ``hunk`` and ``file`` rows hold their text in ``old``.
        old: The line before the edit; None if there is none.
        new: The line after the edit; None if there is none.
        old_number: 1-based.
        new_number: 1-based.
    """

    kind: Literal["file", "hunk", "same", "changed"]
    old: str | None = None
    new: str | None = None
    old_number: int | None = None
    new_number: int | None = None


def diff_rows(diff: str) -> tuple[DiffRow, ...]:
    """The rows of a unified diff, removed lines next to those that replace them."""
    rows: list[DiffRow] = []
    removed: list[tuple[int, str]] = []
    added: list[tuple[int, str]] = []
    old = new = 0
    for line in diff.splitlines():
        hunk = _HUNK.match(line)
        mark, text = line[:1], line[1:]
        if hunk is None and old == 0:
            # A file is named twice; the second name is enough.
            if line.startswith("+++ "):
                rows.append(DiffRow("file", line[4:].removeprefix("b/")))
            continue
        if mark == "-" and not line.startswith("--- "):
            removed.append((old, text))
            old += 1
        elif mark == "+" and not line.startswith("+++ "):
            added.append((new, text))
            new += 1
        else:
            rows += _paired(removed, added)
            removed, added = [], []
            if hunk is not None:
                old, new = int(hunk[1]), int(hunk[2])
                rows.append(DiffRow("hunk", hunk[3].strip()))
            elif line.startswith("+++ "):
                rows.append(DiffRow("file", line[4:].removeprefix("b/")))
            elif mark == " " or not line:
                rows.append(DiffRow("same", text, text, old, new))
                old, new = old + 1, new + 1
    return (*rows, *_paired(removed, added))


def _paired(removed: list[tuple[int, str]], added: list[tuple[int, str]]) -> Iterator[DiffRow]:
    for index in range(max(len(removed), len(added))):
        before = removed[index] if index < len(removed) else (None, None)
        after = added[index] if index < len(added) else (None, None)
        yield DiffRow("changed", before[1], after[1], before[0], after[0])
