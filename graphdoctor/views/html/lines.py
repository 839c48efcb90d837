"""The annotated source: what torch.compile did with each line of each file.

Comes in: a ``Diagnosis`` and a ``Picture``; nothing is read from disk. Goes out: ``AnnotatedFile``s in display order.

A line's ``state`` says where it runs *when* it runs; nothing records whether it did:

``graph``
    An operation of the line was captured: a node of a graph at stage ``dynamo`` names the line, and the compile of that
    graph wasn't skipped.
``eager``
    The line is known to run outside any graph. Either it is a line of an own statement (see ``statements``)

    - of a function with a frame that was skipped or hit the recompile limit; if that frame is a resume function, only
      after the line where it resumes;
    - of a function with a frame that is left to eager mode at a break (``rest_eager``), at or after the line of the
      function that led to the break. That line is known if the finding is in the function, or if its call path goes
      through the function exactly once. torch leaves the frame at the last place before the break where it could
      (``torch/_dynamo/symbolic_convert.py``, 2.13, ``InstructionTranslatorBase.step``), so lines in between can run
      eagerly too, and nothing records that;

    or it has a graph break that torch continued past in eager mode, so at least a part of the line runs there.
``mixed``
    Both: a part of the line is in a graph and a part isn't, or it was captured in one frame and runs eagerly in
    another, or it was captured before a function hit its limit and runs eagerly since.
``none``
    Neither is known: a line without operations in a function that was captured or inlined, a line that no frame
    reached, or the body of a function in a file that Python can't parse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graphdoctor.facts.stack import PROGRAM_ORIGINS, Origin, relative
from graphdoctor.views.html.marks import FileMarks, FrameMark, LineMark, mark
from graphdoctor.views.html.statements import SourceFile

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.picture import Picture, SourceText

LineState = Literal["graph", "eager", "mixed", "none"]

_MAX_OWN_LINES = 5_000
_MAX_PACKAGE_LINES = 200
"""Longer files are shown in part."""
_CONTEXT_LINES = 5
"""Lines shown before and after an annotated line outside any function."""
_LEAST_FOLDED = 4
"""Fewer lines take no more room than the line that would stand for them."""
_ORIGINS: tuple[Origin, ...] = (*PROGRAM_ORIGINS, "torch", "stdlib")


@dataclass(frozen=True, slots=True)
class AnnotatedLine:
    """One line of a file."""

    number: int
    """1-based."""
    text: str | None
    """With its indentation if that is known; None if the text is unknown."""
    state: LineState = "none"
    """Where it runs; see the module's docstring."""
    graphs: tuple[int, ...] = ()
    """``Graph.index`` of the graphs that captured an operation of the line."""
    node_count: int = 0
    """Calls in these graphs that torch attributes to the line, including those of skipped compiles."""
    finding_fingerprints: tuple[str, ...] = ()
    """Findings whose primary location it is, the worst first."""
    break_fingerprints: tuple[str, ...] = ()
    """Those of them that are graph breaks."""
    related: tuple[str, ...] = ()
    """Findings that name it as a related place."""
    recompile_fingerprints: tuple[str, ...] = ()
    """Findings about recompiles caused by a value that torch guards on because of the line."""
    recompile_count: int = 0
    """How often a change of such a value caused a recompile or hit the limit."""
    guard_count: int | None = None
    """Guards that torch installed because of the line, in all compiles; None if guards weren't read."""
    guard_us: float | None = None
    """For the line where a function starts: microseconds that all its frames' successful guard checks take in a steady
    call; None if not measured. The guards of single lines aren't measured."""
    frames: tuple[FrameMark, ...] = ()
    """For the line where a function starts: its frames, including resume functions."""
    is_call_path: bool = False
    """It is on the call path to a finding, a frame or a recompile, or it called torch.compile."""
    is_folded: bool = False
    """Nothing is known about its function, or about any line near it outside functions."""


@dataclass(frozen=True, slots=True)
class AnnotatedFile:
    """One file."""

    file: str
    """As shown: relative to the root if it is inside it."""
    origin: Origin
    """Who owns it."""
    package: str | None
    """Top-level package of a file that isn't the user's."""
    lines: tuple[AnnotatedLine, ...]
    """In order, without hidden ones; without the source, only lines that something is known about."""
    is_source_missing: bool
    """The text wasn't recorded."""
    hidden_line_count: int
    """How many lines are hidden."""
    hidden_ranges: tuple[tuple[int, int], ...] = ()
    """First and last line of each hidden range."""

    @property
    def finding_count(self) -> int:
        """Findings whose primary location is in it."""
        return sum(len(line.finding_fingerprints) for line in self.lines)


def annotate(diagnosis: Diagnosis, picture: Picture, root: Path) -> tuple[AnnotatedFile, ...]:
    """Annotate every file with something of the diagnosis in it.

    torch's and Python's own files are included only if a finding is in them. Of a package's file with more than 200
    lines and a user's file with more than 5,000, only functions with something in them are shown, and the surroundings
    of annotated lines outside functions.

    Args:
        diagnosis: What was found.
        picture: For the files and Dynamo's graphs.
        root: Paths are shown relative to it; the same as the diagnosis's.

    Returns:
        The user's files, then packages'; within each those with the most findings first, those that are only on call
        paths last.
    """
    texts = {relative(text.file, root): text for text in picture.files}
    parsed = {file: source for file, text in texts.items() if (source := _parsed(text)) is not None}
    marked = mark(diagnosis, picture, parsed, lambda file: relative(file, root))
    files = [
        _annotated(file, marks, texts.get(file), parsed.get(file))
        for file, marks in marked.items()
        if marks.origin in PROGRAM_ORIGINS or any(line.findings for line in marks.lines.values())
    ]
    return tuple(sorted(files, key=_rank))


def _parsed(source: SourceText) -> SourceFile | None:
    if source.text is None:
        return None
    try:
        return SourceFile(source.text)
    except SyntaxError:  # from a newer Python, or with a notebook's commands
        return None


def _rank(file: AnnotatedFile) -> tuple[int, int, bool, int, str]:
    known = sum(line.state != "none" for line in file.lines)
    is_path_alone = not any(_is_more_than_path(line) for line in file.lines)
    return (_ORIGINS.index(file.origin), -file.finding_count, is_path_alone, -known, file.file)


def _is_more_than_path(line: AnnotatedLine) -> bool:
    known = (line.related, line.recompile_count, line.guard_count, line.frames)
    return line.state != "none" or any(known)


def _annotated(file: str, marks: FileMarks, source: SourceText | None, parsed: SourceFile | None) -> AnnotatedFile:
    if source is None or source.text is None:
        known = {number: line.text for number, line in marks.lines.items()}
        shown = sorted(known)
    else:
        known = dict(enumerate(source.text.removesuffix("\n").split("\n"), start=1))
        shown = _shown(known, marks, source, parsed)
    hidden = _ranges(sorted(known.keys() - shown))
    folded = _folded(shown, marks, parsed)
    return AnnotatedFile(
        file=file,
        origin=marks.origin,
        package=marks.package,
        lines=tuple(_line(number, known.get(number), marks, is_folded=number in folded) for number in shown),
        is_source_missing=source is None or source.text is None,
        hidden_line_count=len(known.keys() - shown),
        hidden_ranges=hidden,
    )


def _shown(known: dict[int, str | None], marks: FileMarks, source: SourceText, parsed: SourceFile | None) -> list[int]:
    limit = _MAX_OWN_LINES if source.origin == "user" else _MAX_PACKAGE_LINES
    if len(known) <= limit:
        return sorted({*known, *marks.lines})
    return sorted((_reached(marks, parsed) & known.keys()) | marks.lines.keys())


def _reached(marks: FileMarks, parsed: SourceFile | None) -> set[int]:
    """The lines of functions with something known in them, and the surroundings of such lines outside functions."""
    reached: set[int] = set()
    by_first_line = {function.first_line: function for function in parsed.functions} if parsed else {}
    for number in marks.lines:
        function = parsed.around(number) if parsed else None
        if function is None:
            reached.update(range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1))
        else:
            outermost = by_first_line[function.outermost]
            reached.update(range(outermost.first_line, outermost.end_line + 1), outermost.class_lines)
    return reached


def _folded(shown: Sequence[int], marks: FileMarks, parsed: SourceFile | None) -> set[int]:
    """The shown lines that a reader can do without."""
    if parsed is None:
        return set()
    runs = _ranges(sorted({*shown} - _reached(marks, parsed)))
    return {number for first, last in runs if last - first + 1 >= _LEAST_FOLDED for number in range(first, last + 1)}


def _ranges(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def _line(number: int, text: str | None, marks: FileMarks, *, is_folded: bool) -> AnnotatedLine:
    line = marks.lines.get(number)
    guard_count = 0 if marks.has_guards else None
    if line is None:
        return AnnotatedLine(number, text, guard_count=guard_count, is_folded=is_folded)
    return AnnotatedLine(
        number=number,
        # Past the end of the text, if the log names more lines than the file has.
        text=line.text if text is None else text,
        state=_state(line),
        graphs=tuple(sorted(line.graphs)),
        node_count=line.node_count,
        finding_fingerprints=tuple(line.findings),
        break_fingerprints=tuple(fingerprint for fingerprint, is_break in line.findings.items() if is_break),
        related=tuple(line.related),
        recompile_fingerprints=tuple(line.recompile_findings),
        recompile_count=line.recompile_count,
        guard_count=line.guard_count if marks.has_guards else None,
        guard_us=line.guard_us,
        frames=tuple(line.frames),
        is_call_path=line.is_call_path,
    )


def _state(line: LineMark) -> LineState:
    if line.is_captured:
        return "mixed" if line.is_eager else "graph"
    return "eager" if line.is_eager else "none"
