"""The annotated source: for each file and each line of it, what torch.compile made of it.

Comes in: a ``Diagnosis`` and a ``Picture``; the disk is never read. Goes out: ``AnnotatedFile``s in the order to show.

A line's ``state`` says where it runs *when* it runs; whether it did run nobody recorded:

``graph``
    An operation of it was captured: a node of a graph as Dynamo wrote it down (stage ``dynamo``) names the line, and
    the compile of that graph was not skipped.
``eager``
    It is known to run outside any graph: it is a line of an own statement (see ``statements``)

    - of a function of which a frame was skipped or hit the recompile limit; where that frame is a resume function,
      only behind the line that it goes on after;
    - of a function of which a frame is left to eager mode at a break (``rest_eager``), at or behind the line of the
      function that led to the break; the line is known where the finding lies in that function or its call path leads
      through it once. torch leaves the frame at the last place before the break where it could
      (``torch/_dynamo/symbolic_convert.py``, 2.13, ``InstructionTranslatorBase.step``), so lines in between can run
      eagerly too, and nobody recorded that;

    or a graph break is located at it that torch went past in eager mode, so that a part of the line at least runs
    there.
``mixed``
    Both: a part of the line is in a graph and a part is not, or it was captured in one frame and runs eagerly in
    another, or before a function hit its limit and not since.
``none``
    Neither is known. That is so for a line without an operation in a function that was captured or inlined, for one
    that no frame reached, and for the body of a function in whose file Python finds no syntax.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graphdoctor.model.stack import Origin, relative
from graphdoctor.render.html.marks import FileMarks, LineMark, mark
from graphdoctor.render.html.statements import SourceFile

if TYPE_CHECKING:
    from graphdoctor.model.diagnosis import Diagnosis, FrameState
    from graphdoctor.model.picture import Picture, SourceText

LineState = Literal["graph", "eager", "mixed", "none"]

_MAX_OWN_LINES = 5_000
_MAX_PACKAGE_LINES = 200
"""A file that is longer is shown in part."""
_CONTEXT_LINES = 5
"""Around an annotated line outside any function."""
_ORIGINS: tuple[Origin, ...] = ("user", "third_party", "torch", "stdlib")


@dataclass(frozen=True, slots=True)
class FrameMark:
    """A frame of the function that a line begins."""

    state: FrameState
    """What became of it."""
    compile_ids: tuple[str, ...]
    """Its compiles."""
    resumes_at: int | None
    """For a resume function: the line after whose break it goes on."""


@dataclass(frozen=True, slots=True)
class AnnotatedLine:
    """One line of a file."""

    number: int
    """1-based."""
    text: str | None
    """With its indentation, where that is known; None when nothing of the line is known."""
    state: LineState = "none"
    """Where it runs; the module says how that is known."""
    graphs: tuple[int, ...] = ()
    """``Graph.index`` of the graphs that an operation of the line was captured into."""
    node_count: int = 0
    """Calls in these graphs that torch says are the line's, those of skipped compiles included."""
    finding_fingerprints: tuple[str, ...] = ()
    """All findings whose primary location it is, worst first."""
    break_fingerprints: tuple[str, ...] = ()
    """Of these the graph breaks."""
    related: tuple[str, ...] = ()
    """Findings that name it as another place that belongs to them."""
    recompile_fingerprints: tuple[str, ...] = ()
    """Findings on recompiles caused by a value that torch guards on because of the line."""
    recompile_count: int = 0
    """How often such a value changed and something was compiled again, or went over its limit."""
    guard_count: int | None = None
    """Guards that torch made because of the line, over all compiles; None when guards were not asked for."""
    guard_us: float | None = None
    """For the line that begins a function: microseconds of a steady call that the successful checks of all its frames'
    guards take; None when not measured. What a single line's guards cost was not."""
    frames: tuple[FrameMark, ...] = ()
    """For the line that begins a function: its frames, resume functions included."""
    is_call_path: bool = False
    """It led to a finding, to a frame or to a recompile, or called torch.compile."""


@dataclass(frozen=True, slots=True)
class AnnotatedFile:
    """One file."""

    file: str
    """As shown: relative to the root where it lies below it."""
    origin: Origin
    """Who owns it."""
    package: str | None
    """Top-level package of a file that is not the user's."""
    lines: tuple[AnnotatedLine, ...]
    """In order, without the hidden ones; without the source those that something is known of."""
    is_source_missing: bool
    """The text was not recorded."""
    hidden_line_count: int
    """Lines left out."""
    hidden_ranges: tuple[tuple[int, int], ...] = ()
    """Where: first and last line of each range."""

    @property
    def finding_count(self) -> int:
        """Findings whose primary location is in it."""
        return sum(len(line.finding_fingerprints) for line in self.lines)


def annotate(diagnosis: Diagnosis, picture: Picture, root: Path) -> tuple[AnnotatedFile, ...]:
    """Annotate every file that something of the diagnosis lies in.

    torch's and Python's own files only where a finding lies in them. A package's file of more than 200 lines and a
    file of the user's of more than 5,000 show whole functions with something in them, and what is around a line
    outside any.

    Args:
        diagnosis: What was found.
        picture: Has the files and the graphs as Dynamo wrote them down.
        root: What paths are shown relative to; the one that the diagnosis was made with.

    Returns:
        The user's files first, then packages'; of these those with the most findings first, those that only lie on
        call paths last.
    """
    texts = {relative(text.file, root): text for text in picture.files}
    parsed = {file: source for file, text in texts.items() if (source := _parsed(text)) is not None}
    marked = mark(diagnosis, picture, parsed, lambda file: relative(file, root))
    files = [
        _annotated(file, marks, texts.get(file), parsed.get(file))
        for file, marks in marked.items()
        if marks.origin in ("user", "third_party") or any(line.findings for line in marks.lines.values())
    ]
    return tuple(sorted(files, key=_rank))


def _parsed(source: SourceText) -> SourceFile | None:
    if source.text is None:
        return None
    try:
        return SourceFile(source.text)
    except SyntaxError:  # of a newer Python, or a notebook's own commands
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
    return AnnotatedFile(
        file=file,
        origin=marks.origin,
        package=marks.package,
        lines=tuple(_line(number, known.get(number), marks.lines.get(number), marks) for number in shown),
        is_source_missing=source is None or source.text is None,
        hidden_line_count=len(known.keys() - shown),
        hidden_ranges=hidden,
    )


def _shown(known: dict[int, str | None], marks: FileMarks, source: SourceText, parsed: SourceFile | None) -> list[int]:
    limit = _MAX_OWN_LINES if source.origin == "user" else _MAX_PACKAGE_LINES
    if len(known) <= limit:
        return sorted({*known, *marks.lines})
    shown: set[int] = set()
    by_first_line = {function.first_line: function for function in parsed.functions} if parsed else {}
    for number in marks.lines:
        function = parsed.around(number) if parsed else None
        if function is None:
            shown.update(range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1))
        else:
            outermost = by_first_line[function.outermost]
            shown.update(range(outermost.first_line, outermost.end_line + 1), outermost.class_lines)
    return sorted((shown & known.keys()) | marks.lines.keys())


def _ranges(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def _line(number: int, text: str | None, line: LineMark | None, marks: FileMarks) -> AnnotatedLine:
    guard_count = 0 if marks.has_guards else None
    if line is None:
        return AnnotatedLine(number, text, guard_count=guard_count)
    return AnnotatedLine(
        number=number,
        # Behind the end of a text, where the log knows of more lines than the file has.
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
        frames=tuple(FrameMark(frame.state, frame.compile_ids, frame.resumes_at) for frame in line.frames),
        is_call_path=line.is_call_path,
    )


def _state(line: LineMark) -> LineState:
    if line.is_captured:
        return "mixed" if line.is_eager else "graph"
    return "eager" if line.is_eager else "none"
