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
    runs eagerly in another, or it was captured before a function hit its limit and runs eagerly
    since.
``none``
    Neither is known: a line without operations in a function that was captured or inlined, a line
    that no frame reached, or the body of a function in a file that Python can't parse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from graphdoctor.facts.diagnosis import Diagnosis, FrameReport
from graphdoctor.facts.picture import Picture, SourceText
from graphdoctor.facts.recording import Frame
from graphdoctor.facts.stack import ORIGINS, PROGRAM_ORIGINS, Origin, StackEntry, relative
from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.statements import SourceFile, parsed

LineState = Literal["graph", "eager", "mixed", "none"]

_MOST_LINES = 5_000
_MOST_PACKAGE_LINES = 200
"""Longer files are shown in part."""
_CONTEXT_LINES = 5
"""Lines shown before and after an annotated line outside any function."""
_LEAST_FOLDED = 4
"""Fewer lines take no more room than the line that would stand for them."""


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
    frames: list[tuple[Frame, FrameReport]] = field(default_factory=list)
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
class AnnotatedFile:
    """One file, by the name that is shown: first what is known about its lines, then, from ``show``
    on, the lines that are shown.
    """

    file: str
    origin: Origin = "user"
    package: str | None = None
    recorded: SourceText | None = None
    known: dict[int, Line] = field(default_factory=dict)
    """The lines that something is known about."""
    lines: tuple[Line, ...] = ()
    """In order, without hidden ones; without the source, only lines that something is known
    about."""
    hidden_ranges: tuple[tuple[int, int], ...] = ()

    @property
    def is_source_missing(self) -> bool:
        """Its text isn't known."""
        return self.recorded is None or self.recorded.text is None

    @property
    def hidden_line_count(self) -> int:
        """Number of hidden lines."""
        return sum(last - first + 1 for first, last in self.hidden_ranges)

    @property
    def finding_count(self) -> int:
        """Findings whose primary location is in it."""
        return sum(len(line.findings) for line in self.known.values())

    @cached_property
    def source(self) -> SourceFile | None:
        """Its functions; None if it has no text, or one that can't be parsed."""
        return parsed(self.recorded.text) if self.recorded and self.recorded.text else None

    def at(self, number: int) -> Line:
        """Return what is known about a line, to add to it."""
        return self.known.setdefault(number, Line(number))

    def show(self) -> None:
        """Choose the lines to show: all if there are few, otherwise the functions with
        something known in them, and the surroundings of such lines outside functions.
        """
        reached: set[int] = set()
        for number in self.known:
            function = self.source.function_at(number) if self.source else None
            nearby = range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1)
            reached |= {*nearby} if function is None else function.surroundings
        texts: dict[int, str | None] = {number: line.text for number, line in self.known.items()}
        shown = {*texts}
        if self.recorded is not None and self.recorded.text is not None:
            lines = self.recorded.text.removesuffix("\n").split("\n")
            texts = dict(enumerate(lines, start=1))
            most = _MOST_LINES if self.origin == "user" else _MOST_PACKAGE_LINES
            shown |= texts.keys() if len(texts) <= most else reached & texts.keys()
        # What a reader can do without.
        runs = _runs(shown - reached) if self.source is not None else ()
        folded = {number for run in runs if len(run) >= _LEAST_FOLDED for number in run}
        for number in shown:
            line = self.at(number)
            # Past the end of the text, if the log names more lines than the file has.
            line.text = texts.get(number, line.text)
            line.is_folded = number in folded
        self.lines = tuple(self.known[number] for number in sorted(shown))
        self.hidden_ranges = tuple((run[0], run[-1]) for run in _runs(texts.keys() - shown))

    def listing(self, number: int, name: str) -> dict[str, Any]:
        """Return the file as templates list it: runs of lines that are all folded or all not, with
        colored code and what is hidden.

        ``hidden_before`` has the numbers of hidden lines by the number of the line after them.
        """
        texts = [line.text for line in self.lines]
        has_code = any(text is not None for text in texts)
        runs = groupby(enumerate(self.lines), lambda item: item[1].is_folded)
        return {
            "number": number,
            "file": self,
            "name": name,
            "runs": [(is_folded, list(run)) for is_folded, run in runs],
            "hidden_before": {last + 1: last - first + 1 for first, last in self.hidden_ranges},
            "code": highlighted("\n".join(text or "" for text in texts)) if has_code else [],
        }


def _runs(numbers: Iterable[int]) -> Iterator[list[int]]:
    """Yield numbers by runs of neighbors."""
    for _, group in groupby(enumerate(sorted(numbers)), lambda item: item[1] - item[0]):
        yield [number for _, number in group]


def annotate(diagnosis: Diagnosis, picture: Picture, root: Path) -> tuple[AnnotatedFile, ...]:
    """Annotate every file with something of the diagnosis in it, those of the user first.

    torch's and Python's own files are included only if a finding is in them. Of long files, only
    functions with something in them are shown, and the surroundings of annotated lines outside
    functions.
    """
    marker = _Marker(diagnosis, picture, root)
    marker.mark_places()
    marker.mark_frames()
    marker.mark_guarded()
    # Last, since a node doesn't say who owns its file.
    marker.mark_nodes()
    files = [
        file
        for file in marker.files.values()
        if file.origin in PROGRAM_ORIGINS or file.finding_count
    ]
    for file in files:
        file.show()
    return tuple(sorted(files, key=_rank))


def _rank(file: AnnotatedFile) -> tuple[int, int, bool, int, str]:
    state_count = sum(line.state != "none" for line in file.lines)
    is_path_alone = not state_count and not any(
        line.related or line.recompile_count or line.guard_count or line.frames
        for line in file.lines
    )
    owner = ORIGINS.index(file.origin)
    return owner, -file.finding_count, is_path_alone, -state_count, file.file


class _Marker:
    """Marks lines with what is known about them, by file as shown."""

    def __init__(self, diagnosis: Diagnosis, picture: Picture, root: Path) -> None:
        self.files: dict[str, AnnotatedFile] = {}
        self._diagnosis = diagnosis
        self._picture = picture
        self._root = root
        self._recorded = {relative(text.file, root): text for text in picture.files}

    def _file(
        self, path: str, origin: Origin = "user", package: str | None = None
    ) -> AnnotatedFile:
        name = relative(path, self._root)
        if name not in self.files:
            recorded = self._recorded.get(name)
            if recorded is not None:
                origin, package = recorded.origin, recorded.package
            self.files[name] = AnnotatedFile(name, origin, package, recorded)
        return self.files[name]

    def _at(self, place: StackEntry) -> Line:
        line = self._file(place.file, place.origin, place.package).at(place.line)
        if line.text is None and place.text is not None:
            line.text = " " * (place.indent or 0) + place.text
        return line

    def mark_places(self) -> None:
        """Mark where findings are, and the lines that lead to findings, frames and recompiles."""
        diagnosis = self._diagnosis
        path: list[StackEntry] = []
        for finding in diagnosis.findings:
            line = self._at(finding.location)
            line.findings[finding.fingerprint] = finding.code.startswith("GD1")
            # A break that torch continued past runs eagerly.
            line.is_eager |= any(effect != "raised" for effect in finding.break_effects)
            for place in finding.related:
                self._at(place).related[finding.fingerprint] = None
            path += finding.user_stack
        path += (entry for report in diagnosis.frames for entry in report.call_path)
        path += (report.call_site for report in diagnosis.recompiles if report.call_site)
        for entry in path:
            self._at(entry).is_call_path = True
        for call in diagnosis.recording.compile_calls:
            self._file(call.file).at(call.line).is_call_path = True

    def mark_frames(self) -> None:
        """Mark where functions start, with their frames, and the lines that run eagerly because of
        how these ended up.
        """
        for frame, report in self._diagnosis.each_frame():
            file = self._file(frame.file, frame.origin, frame.package)
            source = file.source
            function = None if source is None else source.function_at(frame.line, frame.function)
            line = file.at(function.line if function else frame.line)
            line.frames.append((frame, report))
            line.text = line.text or frame.text
            if source is None or function is None:
                continue
            own_lines = source.own_lines(function)
            eager: set[int] = set()
            if report.state in ("skipped", "over_limit"):
                eager = own_lines
                if frame.resumes_at is not None:
                    eager = source.lines_after(function, frame.resumes_at)
            elif report.state == "partly_eager":
                for left_at in self._left_at(file, frame, report, own_lines):
                    eager |= {left_at, *source.lines_after(function, left_at)}
            for number in eager:
                file.at(number).is_eager = True

    def _left_at(
        self, file: AnnotatedFile, frame: Frame, report: FrameReport, own_lines: set[int]
    ) -> Iterator[int]:
        """Yield the frame's own lines after which a finding leaves the rest of it to eager mode."""
        for finding in self._diagnosis.findings:
            names = {*finding.effects.rest_eager_frames}
            is_of_compile = not {*report.compile_ids}.isdisjoint(finding.compile_ids)
            if is_of_compile and not names.isdisjoint((frame.qualname, frame.function)):
                places: list[StackEntry] = [finding.location, *finding.user_stack]
                lines = {
                    place.line
                    for place in places
                    if relative(place.file, self._root) == file.file and place.line in own_lines
                }
                # A recursive function is on the path more than once.
                if len(lines) == 1:
                    yield from lines

    def mark_guarded(self) -> None:
        """Mark the lines because of which torch guards on a value: how many guards they have, and
        how often a value changed.
        """
        diagnosis = self._diagnosis
        for report in diagnosis.recompiles:
            places = (change.guard_location for change in report.cause if change.guard_location)
            # Several values of one line that changed together count once.
            for line in {id(line): line for line in map(self._at, places)}.values():
                line.recompile_count += 1
                if report.fingerprint is not None:
                    line.recompiles[report.fingerprint] = None
        sets = () if diagnosis.recording.guards is None else diagnosis.recording.guards.sets
        for guard in (guard for guard_set in sets for guard in guard_set.nodes):
            if guard.location is not None:
                self._at(guard.location).guard_count += 1

    def mark_nodes(self) -> None:
        """Mark the lines of the nodes in Dynamo's graphs; files that only nodes name aren't the
        program's.
        """
        compiles = self._diagnosis.recording.compiles
        skipped = {compile_.compile_id for compile_ in compiles if compile_.outcome == "skipped"}
        for graph in self._picture.graphs:
            for node in graph.nodes if graph.stage == "dynamo" else ():
                if node.file is None or node.line is None or not node.opcode.startswith("call_"):
                    continue
                name = relative(node.file, self._root)
                if name in self.files or name in self._recorded:
                    line = self._file(node.file).at(node.line)
                    line.is_captured |= graph.compile_id not in skipped
                    if graph.graph_index is not None:
                        line.graphs = sorted({*line.graphs, graph.graph_index})
