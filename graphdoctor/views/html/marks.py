"""What a diagnosis and a picture say about each line; ``lines.py`` turns it into states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis, Finding, FrameReport, FrameState, Location
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import Picture
    from graphdoctor.facts.recording import Frame
    from graphdoctor.facts.stack import Origin, StackEntry
    from graphdoctor.views.html.statements import Function, SourceFile


@dataclass(frozen=True, slots=True)
class FrameMark:
    """A frame of the function that starts on a line."""

    state: FrameState
    """Where it runs."""
    compile_ids: tuple[str, ...]
    """Its compiles."""
    resumes_at: int | None
    """For a resume function, the line of the break it resumes after; None for another."""


@dataclass
class LineMark:
    """What is known about one line."""

    text: str | None = None
    is_captured: bool = False
    is_eager: bool = False
    graphs: set[int] = field(default_factory=set)
    node_count: int = 0
    findings: dict[str, bool] = field(default_factory=dict)
    """By fingerprint: whether it's a graph break."""
    related: dict[str, None] = field(default_factory=dict)
    recompile_findings: dict[str, None] = field(default_factory=dict)
    recompile_count: int = 0
    guard_count: int = 0
    guard_us: float | None = None
    frames: list[FrameMark] = field(default_factory=list)
    is_call_path: bool = False


@dataclass
class FileMarks:
    """What is known about one file."""

    origin: Origin
    package: str | None
    has_guards: bool
    """Guards were read."""
    lines: dict[int, LineMark] = field(default_factory=dict)

    def at(self, number: int) -> LineMark:
        """The mark of a line."""
        return self.lines.setdefault(number, LineMark())


def mark(
    diagnosis: Diagnosis, picture: Picture, sources: Mapping[str, SourceFile], shown: Callable[[str], str]
) -> dict[str, FileMarks]:
    """Everything known about lines, by file.

    Args:
        diagnosis: What was found.
        picture: For Dynamo's graphs.
        sources: The files that could be parsed, by path as shown.
        shown: Turns a path into how it's shown.
    """
    marker = _Marker(diagnosis, picture, sources, shown)
    marker.mark_findings()
    marker.mark_paths()
    marker.mark_frames()
    marker.mark_recompiles()
    marker.mark_guards()
    # Last, since a node doesn't say who owns its file.
    marker.mark_nodes()
    return marker.files


class _Marker:
    def __init__(
        self, diagnosis: Diagnosis, picture: Picture, sources: Mapping[str, SourceFile], shown: Callable[[str], str]
    ) -> None:
        self.files: dict[str, FileMarks] = {}
        self._diagnosis = diagnosis
        self._picture = picture
        self._sources = sources
        self._shown = shown
        self._owners = {shown(text.file): (text.origin, text.package) for text in picture.files}

    def _file(self, file: str, origin: Origin = "user", package: str | None = None) -> FileMarks:
        name = self._shown(file)
        if name not in self.files:
            owner = self._owners.get(name, (origin, package))
            self.files[name] = FileMarks(*owner, has_guards=self._diagnosis.recording.guards is not None)
        return self.files[name]

    def _at(self, place: Location | StackEntry) -> LineMark:
        line = self._file(place.file, place.origin, place.package).at(place.line)
        if line.text is None and place.text is not None:
            line.text = " " * (place.indent or 0) + place.text
        return line

    def mark_findings(self) -> None:
        """Primary and related places; a break that torch continued past runs eagerly."""
        for finding in self._diagnosis.findings:
            line = self._at(finding.location)
            is_break = finding.code.startswith("GD1")
            line.findings[finding.fingerprint] = is_break
            line.is_eager |= any(effect != "raised" for effect in finding.break_effects)
            for place in finding.related:
                self._at(place).related[finding.fingerprint] = None

    def mark_paths(self) -> None:
        """How findings, frames and recompiles were reached."""
        entries: list[StackEntry | Location] = []
        for finding in self._diagnosis.findings:
            entries += finding.user_stack
        for report in self._diagnosis.frames:
            entries += report.call_path
        entries += [found.call_site for found in self._diagnosis.recompiles if found.call_site is not None]
        for entry in entries:
            self._at(entry).is_call_path = True
        for call in self._diagnosis.recording.compile_calls:
            self._file(call.file).at(call.line).is_call_path = True

    def mark_frames(self) -> None:
        """Where functions start, the states of their frames, and the lines that run eagerly because of them."""
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

    def _eager_lines(self, frame: Frame, report: FrameReport, function: Function, source: SourceFile) -> set[int]:
        if report.state in ("skipped", "over_limit"):
            if frame.resumes_at is None:
                return source.own_lines(function)
            return source.lines_after(function, frame.resumes_at)
        if report.state != "partly_eager":
            return set()
        own = source.own_lines(function)
        left_at = (self._left_at(finding, frame, report, own) for finding in self._diagnosis.findings)
        return {
            number for line in left_at if line is not None for number in (line, *source.lines_after(function, line))
        }

    def _left_at(self, finding: Finding, frame: Frame, report: FrameReport, own: set[int]) -> int | None:
        """The frame's own line after which a finding leaves the rest of the frame to eager mode; None if unknown."""
        is_about = {frame.qualname, frame.function} & {*finding.effects.rest_eager_frames}
        if not is_about or not {*report.compile_ids} & {*finding.compile_ids}:
            return None
        file = self._shown(frame.file)
        places: list[Location | StackEntry] = [finding.location, *finding.user_stack]
        lines = {place.line for place in places if self._shown(place.file) == file and place.line in own}
        # A recursive function is on the path more than once.
        return lines.pop() if len(lines) == 1 else None

    def mark_recompiles(self) -> None:
        """The lines because of which torch guards on a value that changed."""
        for report in self._diagnosis.recompiles:
            places = (change.guard_location for change in report.cause if change.guard_location is not None)
            # Several values of one line that changed together count once.
            for line in {id(line): line for line in map(self._at, places)}.values():
                line.recompile_count += 1
                if report.fingerprint is not None:
                    line.recompile_findings[report.fingerprint] = None

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
            known = [costs[compile_id] for compile_id in ids if compile_id in costs]
            measured = [cost for cost in known if cost is not None]
            if known and len(measured) == len(known):
                line.guard_us = sum(measured)

    def mark_nodes(self) -> None:
        """The lines of the nodes in Dynamo's graphs.

        A file that only nodes name is left out: its owner is unknown, and in our own recordings it is torch's or
        Python's.
        """
        skipped = {
            compile_.compile_id for compile_ in self._diagnosis.recording.compiles if compile_.outcome == "skipped"
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
                line.node_count += 1
                line.is_captured |= graph.compile_id not in skipped
                if graph.graph_index is not None:
                    line.graphs.add(graph.graph_index)


def _call_us(guard_set: GuardSet) -> float | None:
    """Microseconds that one compile's successful guard checks take in a steady call; None if not measured."""
    if guard_set.runs_per_call == 0:
        return 0.0
    one = guard_set.search_us if guard_set.search_us is not None else guard_set.check_us
    if guard_set.runs_per_call is None or one is None:
        return None
    return guard_set.runs_per_call * one
