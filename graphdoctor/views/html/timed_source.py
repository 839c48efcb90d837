"""The source with the time of each line: files as they were while the program ran, in the order of their time.

A line without time is folded away unless it is near one that has some; of a package's file, and where there is no
room, it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.statements import parsed
from graphdoctor.views.printable import printable_lines

if TYPE_CHECKING:
    from graphdoctor.facts.picture import SourceText
    from graphdoctor.facts.profile import ProfiledLine, ProfileReport
    from graphdoctor.views.profile_words import Files

_CONTEXT = 2
"""Lines before and after one that has time."""
_LEAST_FOLDED = 4
"""Fewer lines take no more room than the line that would stand for them."""
_MAX_LINES = 12_000
"""Lines without time that are kept, folded, of all files; of others they are left out."""
_MAX_COLORED = 1_000_000
"""Characters of files that are colored, which takes a few seconds; others are plain."""
_MAX_FILES = 40


@dataclass(frozen=True)
class SourceLine:
    """One line: its 1-based number, its colored code if that is known, and what it costs if anything."""

    number: int
    code: Markup | None
    found: ProfiledLine | None


@dataclass(frozen=True)
class Run:
    """Neighboring lines after ``hidden`` others; ``is_folded``: none has time, or is near one that has."""

    lines: Sequence[SourceLine]
    is_folded: bool
    hidden: int


@dataclass(frozen=True)
class TimedFile:
    """One file; ``hidden`` lines follow the last run. Package is None for the program's own."""

    number: int
    file: str
    name: str
    package: str | None
    own: Sequence[ProfiledLine]
    runs: Sequence[Run]
    hidden: int
    has_text: bool


def timed_files(report: ProfileReport, texts: Sequence[SourceText], files: Files) -> tuple[list[TimedFile], int]:
    """The files with time in them, and how many of them were left out."""
    known = {each.file: each.text for each in texts if each.text is not None}
    by_file: dict[str, list[ProfiledLine]] = {}
    for line in report.lines:
        by_file.setdefault(line.file, []).append(line)
    costly = sorted(by_file.items(), key=lambda item: -sum(line.share for line in item[1]))
    found: list[TimedFile] = []
    room, colors = _MAX_LINES, _MAX_COLORED
    for number, (file, own) in enumerate(costly[:_MAX_FILES]):
        text, package = known.get(file), files.package(file)
        count = 0 if text is None else text.count("\n")
        is_whole = package is None and count <= room
        room -= count if is_whole else 0
        colors -= len(text or "")
        codes, shown = _codes(own, text, is_colored=colors >= 0)
        runs = list(_runs(own, codes, shown, codes if is_whole else shown, has_text=text is not None))
        hidden = 0 if text is None else max(0, len(codes) - (runs[-1].lines[-1].number if runs else 0))
        found.append(TimedFile(number, file, files.shown(file), package, own, runs, hidden, text is not None))
    return found, len(costly) - len(found)


def _runs(
    own: Sequence[ProfiledLine],
    codes: dict[int, Markup | None],
    shown: set[int],
    kept: dict[int, Markup | None] | set[int],
    *,
    has_text: bool,
) -> Iterator[Run]:
    by_number = {line.line: line for line in own}
    last = 0
    for (is_shown, _), group in groupby(enumerate(sorted(kept)), lambda each: (each[1] in shown, each[1] - each[0])):
        lines = [SourceLine(number, codes.get(number), by_number.get(number)) for _, number in group]
        yield Run(lines, not is_shown and len(lines) >= _LEAST_FOLDED, lines[0].number - last - 1 if has_text else 0)
        last = lines[-1].number


def _codes(
    own: Sequence[ProfiledLine], text: str | None, *, is_colored: bool
) -> tuple[dict[int, Markup | None], set[int]]:
    """The lines of a file, and the numbers of those to show."""
    timed = {line.line for line in own}
    if text is None:
        alone = {line.line: None if line.text is None else printable_lines(line.text) for line in own}
        return {number: None if line is None else highlighted(line)[0] for number, line in alone.items()}, timed
    whole = text.removesuffix("\n")
    lines = highlighted(whole) if is_colored else [escape(line) for line in printable_lines(whole).split("\n")]
    codes: dict[int, Markup | None] = dict(enumerate(lines, start=1))
    codes.update(dict.fromkeys(timed - codes.keys()))
    near = {number + by for number in timed for by in range(-_CONTEXT, _CONTEXT + 1)}
    shown = (near | _definitions(text, timed)) & codes.keys()
    gaps = [range(one + 1, next_) for one, next_ in pairwise(sorted(shown)) if next_ - one <= _LEAST_FOLDED]
    return codes, shown.union(*gaps)


def _definitions(text: str, timed: set[int]) -> set[int]:
    """The lines at which the functions and classes around begin."""
    if (source := parsed(text)) is None:
        return set()
    around = [function for number in timed if (function := source.around(number)) is not None]
    return {line for function in around for line in (function.line, *function.class_lines)}
