"""The source with the time of each line.

Comes in: the lines of a profile, and files as they were while the program ran. Goes out: files in the order of their
time. A line without time is folded away unless it is near one that has some; of a package's file, and where there is no
room, it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.statements import SourceFile
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
    """One line.

    Args:
        number: 1-based.
        code: It, colored; None if it is unknown.
        found: What it costs; None if it costs nothing that is known.
        forward: The length of its bar for the forward pass, in percent of the longest.
    """

    number: int
    code: Markup | None
    found: ProfiledLine | None
    forward: float
    backward: float


@dataclass(frozen=True)
class Run:
    """Neighboring lines.

    Args:
        is_folded: None has time, and none is near one that has.
    """

    lines: tuple[SourceLine, ...]
    is_folded: bool
    hidden: int


@dataclass(frozen=True)
class TimedFile:
    """One file.

    Args:
        package: The package that it belongs to; None for the program's own.
    """

    number: int
    file: str
    name: str
    package: str | None
    forward_us: float
    backward_us: float
    runs: tuple[Run, ...]
    hidden: int
    has_text: bool


def timed_files(report: ProfileReport, texts: Sequence[SourceText], files: Files) -> tuple[list[TimedFile], int]:
    """The files with time in them, and how many of them were left out."""
    known = {each.file: each.text for each in texts if each.text is not None}
    by_file: dict[str, list[ProfiledLine]] = {}
    for line in report.lines:
        by_file.setdefault(line.file, []).append(line)
    most = max((line.forward_us + line.backward_us for line in report.lines), default=0.0) or 1.0
    costly = sorted(by_file.items(), key=lambda item: -sum(line.share for line in item[1]))
    found: list[TimedFile] = []
    room, colors = _MAX_LINES, _MAX_COLORED
    for number, (file, own) in enumerate(costly[:_MAX_FILES]):
        text = known.get(file)
        count = 0 if text is None else text.count("\n")
        is_whole = files.package(file) is None and count <= room
        room -= count if is_whole else 0
        colors -= len(text or "")
        shown = _codes(own, text, is_colored=colors >= 0)
        found.append(_file(number, file, own, shown, files, most, is_whole=is_whole, has_text=text is not None))
    return found, len(costly) - len(found)


def _file(
    number: int,
    file: str,
    own: Sequence[ProfiledLine],
    found: tuple[dict[int, Markup | None], set[int]],
    files: Files,
    most: float,
    *,
    is_whole: bool,
    has_text: bool,
) -> TimedFile:
    by_number = {line.line: line for line in own}
    codes, shown = found
    kept = sorted(codes if is_whole else shown)
    lines = [_line(each, codes.get(each), by_number.get(each), most) for each in kept]
    runs, last = [], 0
    for is_folded, group in groupby(lines, lambda line: line.number not in shown):
        for run in _unbroken(list(group)):
            hides = is_folded and len(run) >= _LEAST_FOLDED
            runs.append(Run(tuple(run), hides, run[0].number - last - 1 if has_text else 0))
            last = run[-1].number
    return TimedFile(
        number=number,
        file=file,
        name=files.shown(file),
        package=files.package(file),
        forward_us=sum(line.forward_us for line in own),
        backward_us=sum(line.backward_us for line in own),
        runs=tuple(runs),
        hidden=max(0, len(codes) - last) if has_text else 0,
        has_text=has_text,
    )


def _unbroken(lines: Sequence[SourceLine]) -> Iterator[list[SourceLine]]:
    """Lines in runs of neighbors."""
    run: list[SourceLine] = []
    for line in lines:
        if run and line.number != run[-1].number + 1:
            yield run
            run = []
        run.append(line)
    yield run


def _codes(
    own: Sequence[ProfiledLine], text: str | None, *, is_colored: bool
) -> tuple[dict[int, Markup | None], set[int]]:
    """The lines of a file, and the numbers of those to show."""
    timed = {line.line for line in own}
    if text is None:
        return {line.line: _alone(line.text) for line in own}, timed
    whole = text.removesuffix("\n")
    lines = highlighted(whole) if is_colored else [escape(line) for line in printable_lines(whole).split("\n")]
    codes: dict[int, Markup | None] = dict(enumerate(lines, start=1))
    codes.update(dict.fromkeys(timed - codes.keys()))
    near = {number + by for number in timed for by in range(-_CONTEXT, _CONTEXT + 1)}
    return codes, _without_small_gaps((near | _definitions(text, timed)) & codes.keys())


def _without_small_gaps(numbers: set[int]) -> set[int]:
    ordered = sorted(numbers)
    gaps = [range(first + 1, second) for first, second in pairwise(ordered) if second - first <= _LEAST_FOLDED]
    return numbers.union(*gaps)


def _alone(text: str | None) -> Markup | None:
    return None if text is None else Markup("").join(highlighted(printable_lines(text))[:1])


def _definitions(text: str, timed: set[int]) -> set[int]:
    """The lines at which the functions and classes around begin."""
    try:
        source = SourceFile(text)
    except SyntaxError:  # from a newer Python, or with a notebook's commands
        return set()
    around = [function for number in timed if (function := source.around(number)) is not None]
    return {line for function in around for line in (function.line, *function.class_lines)}


def _line(number: int, code: Markup | None, found: ProfiledLine | None, most: float) -> SourceLine:
    if found is None:
        return SourceLine(number, code, None, 0.0, 0.0)
    return SourceLine(number, code, found, 100 * found.forward_us / most, 100 * found.backward_us / most)
