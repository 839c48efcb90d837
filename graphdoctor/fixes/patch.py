"""What a fix is, and edits of one file as changed lines: merged, followed from text to text, shown
as a diff.

A line ends with LF, CRLF or CR, as in Python. Only the diff ends lines with LF alone, as ``patch``
does.
"""

from __future__ import annotations

import ast
import io
import os
import tokenize
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, diff_bytes, unified_diff
from functools import cached_property
from pathlib import Path
from typing import Any

from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    GRADES,
    FixKind,
    Grade,
    SnippetPlace,
    Treatment,
    TrialChoices,
    TriedFix,
)
from graphdoctor.facts.stack import parsed, relative
from graphdoctor.fixes.grades import grade_of
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import Way

FIXES_FOLDER = "fixes"
"""The folder of the trials in a recording."""


@dataclass(frozen=True)
class FileChange:
    """One file's edit."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True)
class _Hunk:
    """Lines of a text and what replaces them; 0-based indices, ends exclusive."""

    start: int
    end: int
    after_start: int
    lines: tuple[bytes, ...]
    """What replaces ``start`` to ``end``."""

    @property
    def after_end(self) -> int:
        return self.after_start + len(self.lines)

    @property
    def change(self) -> tuple[int, int, tuple[bytes, ...]]:
        """Its effect, wherever other edits moved its lines."""
        return self.start, self.end, self.lines

    def clashes(self, other: _Hunk) -> bool:
        """Tell if the result of both together would be ambiguous.

        Replaced lines may be adjacent, one after the other. A line added right there could belong
        to either.
        """
        if self.change == other.change:
            return False
        if self.start == self.end or other.start == other.end:
            return self.start <= other.end and other.start <= self.end
        return self.start < other.end and other.start < self.end


def merged(base: bytes, versions: Sequence[bytes]) -> tuple[bytes, tuple[int, ...]]:
    """Several edits of one file merged into one text, and the indices of those that are in it.

    Earlier versions take precedence: a version is left out if its changed lines overlap those of an
    earlier one. The same lines changed in the same way, such as an added ``import torch``, are one
    change. A version is also left out if the text would no longer be Python, for example if two
    edits each remove one of a body's two statements.
    """
    lines = base.splitlines(keepends=True)
    is_python = parsed(base) is not None
    content, taken, chosen = base, list[_Hunk](), list[int]()
    for index, version in enumerate(versions):
        hunks = _hunks(lines, version.splitlines(keepends=True))
        if any(hunk.clashes(other) for hunk in hunks for other in taken):
            continue
        changes = [other.change for other in taken]
        together = taken + [hunk for hunk in hunks if hunk.change not in changes]
        text = _applied(lines, together)
        if is_python and text != content and parsed(text) is None:
            continue
        content, taken = text, together
        chosen.append(index)
    return content, tuple(chosen)


class LineMap:
    """Maps lines of an edited file to lines before the edit; 1-based."""

    def __init__(self, before: bytes, after: bytes) -> None:
        self.after = after
        self._hunks = _hunks(before.splitlines(keepends=True), after.splitlines(keepends=True))
        self._starts = [hunk.start for hunk in self._hunks]
        self._after_starts = [hunk.after_start for hunk in self._hunks]

    def to_before(self, line: int) -> int:
        """Map a line after the edit to the one before it.

        For a changed line, the first of the lines that it replaced; for an added line, the line
        above it, or 1.
        """
        hunk = self._hunk_after(line)
        if hunk is None:
            return line
        if line > hunk.after_end:
            return line - hunk.after_end + hunk.end
        return max(hunk.start + (1 if hunk.end > hunk.start else 0), 1)

    def is_changed_after(self, line: int) -> bool:
        """Tell if a line afterwards is added or changed."""
        hunk = self._hunk_after(line)
        return hunk is not None and line <= hunk.after_end

    def range_start(self, line: int) -> int | None:
        """Find the first line of the range that changes around a line before the edit; None outside
        of one.
        """
        at = bisect_right(self._starts, line - 1)
        return self._hunks[at - 1].start + 1 if at and line <= self._hunks[at - 1].end else None

    def _hunk_after(self, line: int) -> _Hunk | None:
        at = bisect_right(self._after_starts, line - 1)
        return self._hunks[at - 1] if at else None


def unified(before: bytes, after: bytes, name: str) -> str:
    """An edit as a unified diff, decoded with the file's encoding; see ``unified_bytes``."""
    *head, body = unified_bytes(before, after, name).split(b"\n", 2)
    shown = [os.fsdecode(line) for line in head]
    return "\n".join([*shown, body.decode(encoding_of(after or before), "surrogateescape")])


def changed_parts(change: FileChange) -> set[int]:
    """Collect the lines that an edit changes, 1-based before it; where it adds, the line above."""
    texts = (text.splitlines(keepends=True) for text in (change.before, change.after))
    return {
        line
        for hunk in _hunks(*texts)
        for line in range(min(hunk.start + 1, hunk.end), hunk.end + 1)
    }


def changed_in_functions(change: FileChange) -> list[tuple[int, int]]:
    """List the parts of functions that an edit changes, as 1-based lines before it; where it only
    adds, the line above. Constructors are left out: objects are made before calls are watched.
    """
    tree = parsed(change.before)
    bodies = [
        (node.body[0].lineno, node.end_lineno or node.lineno)
        for node in (() if tree is None else ast.walk(tree))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name != "__init__"
    ]
    ranges = []
    for hunk in _hunks(*(text.splitlines(keepends=True) for text in (change.before, change.after))):
        first, last = min(hunk.start + 1, hunk.end), hunk.end
        if any(start <= last and first <= end for start, end in bodies):
            ranges.append((first, last))
    return ranges


def diff_text(change: FileChange, root: Path) -> str:
    """An edit as a diff for people and for JSON, which can't hold bytes that aren't text."""
    return (
        unified(change.before, change.after, relative(str(change.path), root))
        .encode("utf-8", "replace")
        .decode()
    )


def unified_bytes(before: bytes, after: bytes, name: str) -> bytes:
    """An edit as a unified diff that ``git apply`` and ``patch -p1`` take, with the lines' bytes;
    empty without one.
    """
    old, new = (io.BytesIO(text).readlines() for text in (before, after))
    first, second = (os.fsencode(_path(f"{side}/{name}")) for side in "ab")
    lines = diff_bytes(unified_diff, old, new, first, second)
    return b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in lines
    )


def _hunks(before: Sequence[bytes], after: Sequence[bytes]) -> list[_Hunk]:
    """List what differs; an addition or removal that could be in several places is in the last
    one.
    """
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    hunks = [
        _Hunk(start + head, end + head, after_start + head, tuple(new[after_start:after_end]))
        for tag, start, end, after_start, after_end in SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if tag != "equal"
    ]
    return _slid(hunks, before)


def _slid(hunks: list[_Hunk], before: Sequence[bytes]) -> list[_Hunk]:
    slid = []
    limit = len(before)
    for hunk in reversed(hunks):
        start, end, lines = hunk.change
        # An addition moves if it begins as the next line does, a removal likewise.
        while end < limit and (start == end or not lines):
            first, *rest = lines or before[start : start + 1]
            if before[end] != first:
                break
            start, end = start + 1, end + 1
            lines = (*rest, first) if lines else lines
        slid.append(_Hunk(start, end, hunk.after_start + start - hunk.start, lines))
        limit = start - 1
    return slid[::-1]


def _applied(lines: Sequence[bytes], hunks: Sequence[_Hunk]) -> bytes:
    parts = []
    at = 0
    for hunk in sorted(hunks, key=lambda hunk: (hunk.start, hunk.end)):
        parts += [*lines[at : hunk.start], *hunk.lines]
        at = hunk.end
    return b"".join([*parts, *lines[at:]])


def encoding_of(content: bytes) -> str:
    """Read the encoding that a file declares; UTF-8 if it declares none that can decode it."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        content.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError):
        return "utf-8"
    # A byte-order mark is a character of the first line, so the diff contains it.
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _path(path: str) -> str:
    if any(character < " " or character in '"\\' for character in path):
        return '"' + "".join(f"\\{ord(c):03o}" if c < " " or c in '"\\' else c for c in path) + '"'
    # Without the tab, GNU patch takes what follows a space for a date.
    return path + "\t" if " " in path else path


@dataclass(frozen=True, eq=False)
class Candidate:
    """One thing that can be tried: edits of files as the program has them, or a change of the run.

    ``snippet`` is None for an edit of source, and if ``title`` has to do; ``contains`` is for one
    that contains a break rather than removing it; ``needs`` are the lines of the file before the
    edit that inputs must reach, below which they must skip a branch, or that must raise, for a
    trial to prove anything;
    ``redraws`` and ``is_joint`` are those of ``Edit``;
    ``name`` is stable, such as ``mark_dynamic x 0``.
    """

    title: str
    kind: FixKind
    is_safe: bool
    targets: tuple[str, ...] = ()
    edits: tuple[FileChange, ...] = ()
    change: RunChange = field(default_factory=RunChange)
    snippet: str | None = None
    place: SnippetPlace | None = None
    contains: bool = False
    drops_output: bool = False
    redraws: bool = False
    is_joint: bool = False
    needs: tuple[tuple[Way, Path, int], ...] = ()
    name: str = ""
    addresses: tuple[str, ...] = ()

    @cached_property
    def grade(self) -> Grade:
        """What it leaves of the source."""
        texts = [(edit.before, edit.after) for edit in self.edits]
        # An argument of the call is neither a setting of the process nor a second path.
        is_code = self.kind == "code" or self.change.fullgraph
        return grade_of(texts, is_code=is_code, contains=self.contains)

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """Lower is better: what keeps every line of output first, then by grade."""
        return self.drops_output, GRADES.index(self.grade), not self.is_safe

    def tried(self, finding: Finding, root: Path, **more: Any) -> TriedFix:  # noqa: ANN401 - fields
        """Describe it once it is tried for a finding; ``more`` are other fields."""
        described = values_of(self, "title", "kind", "snippet", "place", "grade", "is_safe")
        described |= values_of(finding, "code", "fingerprint")
        described["diff"] = "".join(diff_text(edit, root) for edit in self.edits) or None
        return TriedFix(**described | more)

    def is_same(self, other: Candidate) -> bool:
        """Check whether both change the program in the same way."""
        return (self.edits, self.change) == (other.edits, other.change)


@dataclass(frozen=True)
class Patch:
    """Edits that somebody wrote, and the name of what they were read from."""

    name: str
    changes: tuple[FileChange, ...]


@dataclass(frozen=True)
class SearchOptions:
    """Settings of a search.

    Args:
        jobs: How many trials run side by side; None for a number that fits the machine.
        timeout_s: Until a trial is stopped, as with memory; None for a multiple of what the
            untouched program takes, within the budget.
        budget_s: Seconds after which no further trial begins, unless running the untouched program
            took over half of them: trials then get as long as that took. None for no limit.
        is_checked: Whether to run the best program under the user's backend.
        kept: Replays of an earlier, unfinished search of the same program that needn't run again.
    """

    selection: Selection
    is_unsafe_tried: bool = True
    is_tried: bool = True
    is_timed: bool = True
    jobs: int | None = None
    timeout_s: float | None = None
    memory_bytes: int | None = None
    budget_s: float | None = None
    kept: frozenset[str] = frozenset()
    is_checked: bool = True

    @property
    def choices(self) -> TrialChoices:
        """The options that decide which fixes are verified."""
        return TrialChoices(
            **values_of(self.selection, "select", "ignore", "is_own_code_only"),
            **values_of(self, "is_unsafe_tried", "is_timed"),
        )


@dataclass(frozen=True)
class SearchResult:
    """The treatment, the edits that hold, and those that weren't tried."""

    treatment: Treatment
    changes: tuple[FileChange, ...] = ()
    suggested: tuple[FileChange, ...] = ()
    program: Program = field(default_factory=Program)


@dataclass(frozen=True)
class Options:
    """The fixes that can be tried for one finding."""

    finding: Finding
    fixes: tuple[Candidate, ...]
    declined: tuple[str, ...] = ()


def compatible(fixes: Sequence[Candidate]) -> list[Candidate]:
    """Keep the fixes for one program whose edits of a file don't overlap; of those that do, the
    first.
    """
    left_out = []
    for editing in _by_file(fixes):
        _, chosen = _merged([edit for _, edit in editing])
        left_out += [fix for at, (fix, _) in enumerate(editing) if at not in chosen]
    return [fix for fix in fixes if fix not in left_out]


def with_fixes(program: Program, fixes: Sequence[Candidate]) -> Program:
    """Apply fixes that were made for a program; of edits that overlap, the first."""
    content = dict(program.content)
    for editing in _by_file(fixes):
        edits = [edit for _, edit in editing]
        content[edits[0].path] = edits[0].after if len(edits) == 1 else _merged(edits)[0]
    change = program.change
    for fix in fixes:
        change = change.joined(fix.change)
    return Program(content, change)


def without(program: Program, fix: Candidate, others: Sequence[Candidate]) -> Program | None:
    """Leave a fix out of a program that has others; None if another one changed the same lines
    later.
    """
    content = dict(program.content)
    for edit in fix.edits:
        content[edit.path], chosen = merged(edit.after, [edit.before, content[edit.path]])
        if len(chosen) < 2:
            return None
    change = RunChange()
    for other in others:
        change = change.joined(other.change)
    return Program(content, change)


def _by_file(fixes: Sequence[Candidate]) -> list[list[tuple[Candidate, FileChange]]]:
    return list(grouped((edit.path, (fix, edit)) for fix in fixes for edit in fix.edits).values())


def _merged(edits: Sequence[FileChange]) -> tuple[bytes, tuple[int, ...]]:
    return merged(edits[0].before, [edit.after for edit in edits])
