"""The annotated source: what torch.compile did with each line of each file.

Comes in: a ``Diagnosis`` and a ``Picture``; nothing is read from disk. Goes out: ``AnnotatedFile``s
in display order.

A line's ``state`` says where it runs *when* it runs; nothing records whether it did:

``graph``
    An operation of the line was captured: a node of a graph at stage ``dynamo`` names the line, and
    the compile of that graph wasn't skipped.
``eager``
    The line is known to run outside any graph. Either it is a line of an own statement (see
    ``statements``)

    - of a function with a frame that was skipped or hit the recompile limit; if that frame is a
      resume function, only after the line where it resumes;
    - of a function with a frame that is left to eager mode at a break (``rest_eager``), at or after
      the line of the function that led to the break. That line is known if the finding is in the
      function, or if its call path goes through the function exactly once. torch leaves the frame
      at the last place before the break where it could (``torch/_dynamo/symbolic_convert.py``,
      2.13, ``InstructionTranslatorBase.step``), so lines in between can run eagerly too, and
      nothing records that;

    or it has a graph break that torch continued past in eager mode, so at least a part of the line
    runs there.
``mixed``
    Both: a part of the line is in a graph and a part isn't, or it was captured in one frame and
        runs eagerly in
    another, or it was captured before a function hit its limit and runs eagerly since.
``none``
    Neither is known: a line without operations in a function that was captured or inlined, a line
    that no frame reached, or the body of a function in a file that Python can't parse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from graphdoctor.facts.stack import ORIGINS, PROGRAM_ORIGINS, Origin, relative
from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.statements import SourceFile, parsed

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis, Finding, FrameReport, FrameState
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import Picture, SourceText
    from graphdoctor.facts.recording import Frame
    from graphdoctor.facts.stack import StackEntry
    from graphdoctor.views.html.statements import Function

LineState = Literal["graph", "eager", "mixed", "none"]

MAX_OWN_LINES = 5_000
_MAX_PACKAGE_LINES = 200
"""Longer files are shown in part."""
_CONTEXT_LINES = 5
"""Lines shown before and after an annotated line outside any function."""
_LEAST_FOLDED = 4
"""Fewer lines take no more room than the line that would stand for them."""


@dataclass(frozen=True, slots=True)
class FrameMark:
    """A frame of the function that starts on a line."""

    state: FrameState
    compile_ids: tuple[str, ...]
    resumes_at: int | None


@dataclass
class Line:
    """What is known about one line; ``number`` is 1-based, ``text`` has its indentation, if that is
    known.
    """

    number: int
    text: str | None = None
    is_captured: bool = False
    is_eager: bool = False
    graphs: list[int] = field(default_factory=list)
    """``Graph.index`` of the graphs that captured an operation of the line."""
    findings: dict[str, bool] = field(default_factory=dict)
    """By fingerprint, the worst first: whether it's a graph break."""
    related: dict[str, None] = field(default_factory=dict)
    recompiles: dict[str, None] = field(default_factory=dict)
    """Findings about recompiles caused by a value that torch guards on because of the line."""
    recompile_count: int = 0
    """How often a change of such a value caused a recompile or hit the limit."""
    guard_count: int = 0
    """Guards that torch installed because of the line, in all compiles."""
    guard_us: float | None = None
    """For the line where a function starts: microseconds that all its frames' successful guard
    checks take in a steady call; None if not measured. The guards of single lines aren't
    measured."""
    frames: list[FrameMark] = field(default_factory=list)
    """For the line where a function starts: its frames, including resume functions."""
    is_call_path: bool = False
    """It is on the call path to a finding, a frame or a recompile, or it called torch.compile."""
    is_folded: bool = False
    """Nothing is known about its function, or about any line near it outside functions."""

    @property
    def state(self) -> LineState:
        """Where it runs; see the module's docstring."""
        if self.is_captured:
            return "mixed" if self.is_eager else "graph"
        return "eager" if self.is_eager else "none"


@dataclass
class FileMarks:
    """The facts of one file."""

    origin: Origin
    package: str | None
    lines: dict[int, Line] = field(default_factory=dict)

    def at(self, number: int) -> Line:
        """Return the facts of a line."""
        return self.lines.setdefault(number, Line(number))


@dataclass(frozen=True, slots=True)
class AnnotatedFile:
    """One file."""

    file: str
    origin: Origin
    package: str | None
    lines: tuple[Line, ...]
    """In order, without hidden ones; without the source, only lines that something is known
    about."""
    is_source_missing: bool
    hidden_ranges: tuple[tuple[int, int], ...] = ()

    @property
    def hidden_line_count(self) -> int:
        """Number of hidden lines."""
        return sum(last - first + 1 for first, last in self.hidden_ranges)

    @property
    def finding_count(self) -> int:
        """Findings whose primary location is in it."""
        return sum(len(line.findings) for line in self.lines)


def annotate(diagnosis: Diagnosis, picture: Picture, root: Path) -> tuple[AnnotatedFile, ...]:
    """Annotate every file with something of the diagnosis in it, those of the user first.

    torch's and Python's own files are included only if a finding is in them. Of long files, only
    functions with something in them are shown, and the surroundings of annotated lines outside
    functions.
    """
    texts = {relative(text.file, root): text for text in picture.files}
    sources = {
        file: source
        for file, text in texts.items()
        if text.text and (source := parsed(text.text)) is not None
    }
    marked = _Marker(diagnosis, picture, sources, root).files
    files = [
        annotated(file, marks, texts.get(file), sources.get(file))
        for file, marks in marked.items()
        if marks.origin in PROGRAM_ORIGINS or any(line.findings for line in marks.lines.values())
    ]
    return tuple(sorted(files, key=_rank))


def _rank(file: AnnotatedFile) -> tuple[int, int, bool, int, str]:
    known_lines = sum(line.state != "none" for line in file.lines)
    is_path_alone = not any(_is_more_than_path(line) for line in file.lines)
    return (ORIGINS.index(file.origin), -file.finding_count, is_path_alone, -known_lines, file.file)


def _is_more_than_path(line: Line) -> bool:
    marks = (line.related, line.recompile_count, line.guard_count, line.frames)
    return line.state != "none" or any(marks)


def annotated(
    file: str,
    marks: FileMarks,
    source: SourceText | None,
    parsed: SourceFile | None,
    *,
    room: int = MAX_OWN_LINES,
) -> AnnotatedFile:
    """A file with what is known about its lines, and the lines around them; whole if it has at most
    ``room`` lines.
    """
    has_text = source is not None and source.text is not None
    texts: dict[int, str | None] = {number: line.text for number, line in marks.lines.items()}
    shown = {*texts}
    if source is not None and source.text is not None:
        texts = dict(enumerate(source.text.removesuffix("\n").split("\n"), start=1))
        limit = MAX_OWN_LINES if marks.origin == "user" else _MAX_PACKAGE_LINES
        shown |= (
            texts.keys()
            if len(texts) <= min(limit, room)
            else _reached(marks, parsed) & texts.keys()
        )
    # What a reader can do without.
    runs = _ranges(shown - _reached(marks, parsed)) if parsed is not None else ()
    folded = [range(first, last + 1) for first, last in runs if last - first + 1 >= _LEAST_FOLDED]
    for number in shown:
        line = marks.at(number)
        # Past the end of the text, if the log names more lines than the file has.
        line.text = texts.get(number, line.text)
        line.is_folded = any(number in run for run in folded)
    return AnnotatedFile(
        file=file,
        origin=marks.origin,
        package=marks.package,
        lines=tuple(marks.lines[number] for number in sorted(shown)),
        is_source_missing=not has_text,
        hidden_ranges=tuple(_ranges(texts.keys() - shown)),
    )


def listing(number: int, file: AnnotatedFile, name: str) -> dict[str, Any]:
    """A file as templates list it: runs of lines that are all folded or all not, with colored code
    and what is hidden.

    ``hidden_before`` has the numbers of hidden lines by the number of the line after them.
    """
    texts = [line.text for line in file.lines]
    runs = groupby(enumerate(file.lines), lambda item: item[1].is_folded)
    return {
        "number": number,
        "file": file,
        "name": name,
        "runs": [(is_folded, list(run)) for is_folded, run in runs],
        "hidden_before": {last + 1: last - first + 1 for first, last in file.hidden_ranges},
        "code": highlighted("\n".join(text or "" for text in texts))
        if any(text is not None for text in texts)
        else [],
    }


def _reached(marks: FileMarks, parsed: SourceFile | None) -> set[int]:
    """The lines of functions with something known in them, and the surroundings of such lines
    outside functions.
    """
    reached: set[int] = set()
    by_first_line = (
        {function.first_line: function for function in parsed.functions} if parsed else {}
    )
    for number in marks.lines:
        function = parsed.around(number) if parsed else None
        if function is None:
            reached.update(range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1))
        else:
            outermost = by_first_line[function.outermost]
            reached.update(
                range(outermost.first_line, outermost.end_line + 1), outermost.class_lines
            )
    return reached


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each run of neighbors."""
    for _, group in groupby(enumerate(sorted(numbers)), lambda item: item[1] - item[0]):
        run = [number for _, number in group]
        yield run[0], run[-1]


# What is known about each line.


class _Marker:
    """Marks lines, by file as shown."""

    def __init__(
        self, diagnosis: Diagnosis, picture: Picture, sources: Mapping[str, SourceFile], root: Path
    ) -> None:
        self.files: dict[str, FileMarks] = {}
        self._diagnosis = diagnosis
        self._picture = picture
        self._sources = sources
        self._root = root
        self._owners = {
            self._shown(text.file): (text.origin, text.package) for text in picture.files
        }
        self.mark_findings()
        self.mark_paths()
        self.mark_frames()
        self.mark_recompiles()
        self.mark_guards()
        # Last, since a node doesn't say who owns its file.
        self.mark_nodes()

    def _shown(self, file: str) -> str:
        return relative(file, self._root)

    def _file(self, file: str, origin: Origin = "user", package: str | None = None) -> FileMarks:
        name = self._shown(file)
        if name not in self.files:
            self.files[name] = FileMarks(*self._owners.get(name, (origin, package)))
        return self.files[name]

    def _at(self, place: StackEntry) -> Line:
        line = self._file(place.file, place.origin, place.package).at(place.line)
        if line.text is None and place.text is not None:
            line.text = " " * (place.indent or 0) + place.text
        return line

    def mark_findings(self) -> None:
        """Primary and related places; a break that torch continued past runs eagerly."""
        for finding in self._diagnosis.findings:
            line = self._at(finding.location)
            line.findings[finding.fingerprint] = finding.code.startswith("GD1")
            line.is_eager |= any(effect != "raised" for effect in finding.break_effects)
            for place in finding.related:
                self._at(place).related[finding.fingerprint] = None

    def mark_paths(self) -> None:
        """Mark the lines that lead to findings, frames and recompiles."""
        entries: list[StackEntry] = []
        for finding in self._diagnosis.findings:
            entries += finding.user_stack
        for report in self._diagnosis.frames:
            entries += report.call_path
        entries += [
            recompile.call_site
            for recompile in self._diagnosis.recompiles
            if recompile.call_site is not None
        ]
        for entry in entries:
            self._at(entry).is_call_path = True
        for call in self._diagnosis.recording.compile_calls:
            self._file(call.file).at(call.line).is_call_path = True

    def mark_frames(self) -> None:
        """Mark where functions start, the states of their frames, and the lines that run eagerly because of them."""
        for frame, report in self._diagnosis.each_frame():
            source = self._sources.get(self._shown(frame.file))
            function = source.named(frame.function, frame.line) if source is not None else None
            file = self._file(frame.file, frame.origin, frame.package)
            line = file.at(function.line if function else frame.line)
            line.frames.append(FrameMark(report.state, report.compile_ids, frame.resumes_at))
            line.text = line.text or frame.text
            if source is not None and function is not None:
                for number in self._eager_lines(frame, report, function, source):
                    file.at(number).is_eager = True

    def _eager_lines(
        self, frame: Frame, report: FrameReport, function: Function, source: SourceFile
    ) -> set[int]:
        if report.state in ("skipped", "over_limit"):
            if frame.resumes_at is None:
                return source.own_lines(function)
            return source.lines_after(function, frame.resumes_at)
        if report.state != "partly_eager":
            return set()
        own_lines = source.own_lines(function)
        left_at = (
            self._left_at(finding, frame, report, own_lines) for finding in self._diagnosis.findings
        )
        return {
            number
            for line in left_at
            if line is not None
            for number in (line, *source.lines_after(function, line))
        }

    def _left_at(
        self, finding: Finding, frame: Frame, report: FrameReport, own_lines: set[int]
    ) -> int | None:
        """The frame's own line after which a finding leaves the rest of the frame to eager mode;
        None if unknown.
        """
        is_about = {frame.qualname, frame.function} & {*finding.effects.rest_eager_frames}
        if not is_about or not {*report.compile_ids} & {*finding.compile_ids}:
            return None
        file = self._shown(frame.file)
        places: list[StackEntry] = [finding.location, *finding.user_stack]
        lines = {
            place.line
            for place in places
            if self._shown(place.file) == file and place.line in own_lines
        }
        # A recursive function is on the path more than once.
        return lines.pop() if len(lines) == 1 else None

    def mark_recompiles(self) -> None:
        """The lines because of which torch guards on a value that changed."""
        for report in self._diagnosis.recompiles:
            places = (
                change.guard_location
                for change in report.cause
                if change.guard_location is not None
            )
            # Several values of one line that changed together count once.
            for line in {id(line): line for line in map(self._at, places)}.values():
                line.recompile_count += 1
                if report.fingerprint is not None:
                    line.recompiles[report.fingerprint] = None

    def mark_guards(self) -> None:
        """Guards by the line that caused them, and their cost by function."""
        guards = self._diagnosis.recording.guards
        if guards is None:
            return
        for node in (node for guard_set in guards.sets for node in guard_set.nodes):
            if node.location is not None:
                self._at(node.location).guard_count += 1
        costs = {guard_set.compile_id: _call_us(guard_set) for guard_set in guards.sets}
        for line in (line for file in self.files.values() for line in file.lines.values()):
            ids = [compile_id for frame in line.frames for compile_id in frame.compile_ids]
            costs_here = [costs[compile_id] for compile_id in ids if compile_id in costs]
            measured = [cost for cost in costs_here if cost is not None]
            if costs_here and len(measured) == len(costs_here):
                line.guard_us = sum(measured)

    def mark_nodes(self) -> None:
        """The lines of the nodes in Dynamo's graphs; files that only nodes name aren't the
        program's.
        """
        skipped = {
            compile_.compile_id
            for compile_ in self._diagnosis.recording.compiles
            if compile_.outcome == "skipped"
        }
        for graph in self._picture.graphs:
            if graph.stage != "dynamo":
                continue
            for node in graph.nodes:
                if node.file is None or node.line is None or not node.opcode.startswith("call_"):
                    continue
                name = self._shown(node.file)
                if name not in self.files and name not in self._owners:
                    continue
                line = self._file(node.file).at(node.line)
                line.is_captured |= graph.compile_id not in skipped
                if graph.graph_index is not None:
                    line.graphs = sorted({*line.graphs, graph.graph_index})


def _call_us(guard_set: GuardSet) -> float | None:
    """Microseconds that one compile's successful guard checks take in a steady call; None if not
    measured.
    """
    if guard_set.runs_per_call == 0:
        return 0.0
    check_us = guard_set.search_us if guard_set.search_us is not None else guard_set.check_us
    return (
        None
        if guard_set.runs_per_call is None or check_us is None
        else guard_set.runs_per_call * check_us
    )
