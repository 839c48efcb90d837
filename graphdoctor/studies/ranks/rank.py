"""One rank by itself: its files in, a ``RankReport`` out, small enough to be sent elsewhere."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.diagnosis import Diagnosis, Location
from graphdoctor.facts.job import RankCompile, RankReport
from graphdoctor.facts.marks import CompileMark, LogSpan
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.recording import Compile, Frame, Recording
from graphdoctor.facts.stack import relative
from graphdoctor.facts.wording import ranks_text
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trace.folder import RankFolder, ranks_at
from graphdoctor.trace.reader import other_version, read_folder
from graphdoctor.trace.sections import Wanted

if TYPE_CHECKING:
    from graphdoctor.trace.storage.places import Location as Place

_NUMBER = re.compile(r"\d+")


def check_one_rank(location: Place, *command: str) -> None:
    """Refuse a recording of several ranks where ``command``, with its options, shows one.

    Raises:
        GraphDoctorError: It has several ranks.
    """
    ranks = ranks_at(location)
    if len(ranks) > 1:
        raise several_ranks(location, ranks, *command)


def several_ranks(location: Place, ranks: tuple[RankFolder, ...], *command: str) -> GraphDoctorError:
    """The error for a recording of several ranks where only one can be shown."""
    name, *options = command
    numbers = [found.rank for found in ranks]
    again = shlex.join(["graphdoctor", name, str(location), "--rank", str(numbers[0]), *options])
    return GraphDoctorError(
        f"{location} has {ranks_text(numbers)}, and {' '.join(command)} shows one rank.", hint=f"Choose one: {again}"
    )


@dataclass(frozen=True)
class RankPiece:
    """The work for one rank: ``location`` is what errors call its recording, and paths below ``root`` are relative."""

    files: RankFolder
    root: Path
    selection: Selection | None
    location: Place


def read_rank(piece: RankPiece) -> RankReport:
    """Read and diagnose one rank; a pure function of its piece."""
    folder = piece.files.folder
    with other_version(piece.location):
        recording = read_folder(folder, Wanted(marks=True))
    diagnosis = diagnose(recording, RULES, root=piece.root, version=__version__, selection=piece.selection)
    process = folder.processes[0].pid if folder.processes else None
    return rank_report(recording, diagnosis, rank=piece.files.rank, process=process, root=piece.root)


@dataclass(frozen=True)
class TextPiece:
    """The work of reading the texts of one compile of one rank."""

    files: RankFolder
    compile_id: str


def read_texts(piece: TextPiece) -> tuple[str, str]:
    """The printed graph and guards of one compile; a pure function of its piece."""
    wanted = Wanted(marks=True, texts_of=frozenset({piece.compile_id.rpartition(":")[2]}))
    span = read_folder(piece.files.folder, wanted).span
    for mark in span.marks if span is not None else ():
        if mark.compile_id == piece.compile_id:
            return mark.graph_text or "", mark.guards_text or ""
    return "", ""


def rank_report(
    recording: Recording, diagnosis: Diagnosis, *, rank: int, process: int | None, root: Path
) -> RankReport:
    """What other ranks can be compared with, of a recording that was read with its marks."""
    span = recording.span or LogSpan()
    return RankReport(
        rank=rank,
        process=process,
        summary=diagnosis.summary,
        complete=_is_complete(recording, span),
        environment=recording.environment,
        compiles=_compiles(recording, span, root),
        findings=diagnosis.findings,
        gaps=diagnosis.recording.gaps,
        first_s=span.first_s,
        last_s=span.last_s,
        executed=span.executed,
        records=recording.evidence.records,
        steps=recording.steps,
    )


def _is_complete(recording: Recording, span: LogSpan) -> bool | None:
    if recording.is_partial or any(compile_.outcome == "unfinished" for compile_ in recording.compiles):
        return False
    return span.is_ended


def _compiles(recording: Recording, span: LogSpan, root: Path) -> tuple[RankCompile, ...]:
    frames = {frame.frame_id: frame for frame in recording.frames}
    marks = {mark.compile_id: mark for mark in span.marks}
    occurrences = _occurrences(recording)
    found: list[RankCompile] = []
    for compile_ in recording.compiles:
        frame = frames.get(compile_.frame_id)
        causes, changed = _causes(compile_)
        found.append(
            RankCompile(
                compile_id=compile_.compile_id,
                function="?" if frame is None else frame.qualname or frame.function,
                location=_location(frame, root),
                resumes_at=None if frame is None else frame.resumes_at,
                occurrence=occurrences.get(compile_.frame_id, 0),
                outcome=compile_.outcome,
                causes=causes,
                changed=changed,
                duration_s=compile_.duration_s,
                backend_s=compile_.backend_s,
                mark=marks.get(compile_.compile_id) or CompileMark(compile_id=compile_.compile_id),
            )
        )
    return tuple(found)


def _occurrences(recording: Recording) -> Mapping[int, int]:
    seen: Counter[tuple[str, str, int, int | None]] = Counter()
    found: dict[int, int] = {}
    for frame in recording.frames:
        place = (frame.file, frame.function, frame.line, frame.resumes_at)
        found[frame.frame_id] = seen[place]
        seen[place] += 1
    return found


def _location(frame: Frame | None, root: Path) -> Location:
    if frame is None:
        return Location(file="?", line=0, function="?")
    return Location(
        file=relative(frame.file, root),
        line=frame.line,
        function=frame.qualname or frame.function,
        package=frame.package,
        origin=frame.origin,
        text=frame.text,
    )


def _causes(compile_: Compile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Why it was compiled, for people, and what ranks that agree have of it in common."""
    if compile_.cause is not None and compile_.cause.changes:
        changes = compile_.cause.changes
        return tuple(map(_cause, changes)), tuple(sorted(f"{change.kind} {change.expression}" for change in changes))
    reasons = compile_.recompile_reasons[:1]
    return reasons, tuple(_NUMBER.sub("N", reason) for reason in reasons)


def _cause(change: GuardChange) -> str:
    if change.old is None and change.new is None:
        return change.expression
    return f"{change.expression}: {change.old or '?'} → {change.new or '?'}"
