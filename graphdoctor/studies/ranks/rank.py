"""One rank by itself: its files in, a ``RankReport`` out, small enough to be sent elsewhere."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import values_of
from graphdoctor.facts.evidence import CompileMark, LogSpan
from graphdoctor.facts.job import RankCompile, RankReport
from graphdoctor.facts.recording import Compile, Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosed import diagnosis_of
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.distributed import can_all_be_dynamic
from graphdoctor.trace.folder import RankFolder, open_folder
from graphdoctor.trace.reader import read_folder
from graphdoctor.trace.sections import Wanted
from graphdoctor.wording import ranks_text

if TYPE_CHECKING:
    from graphdoctor.trace.storage.places import Location as Place

_NUMBER = re.compile(r"\d+")


def check_one_rank(location: Place, *command: str) -> None:
    """Refuse a recording of several ranks where ``command``, with its options, shows one.

    Raises:
        GraphDoctorError: It has several ranks.
    """
    ranks = open_folder(location).ranks
    if len(ranks) > 1:
        raise several_ranks(location, ranks, *command)


def several_ranks(
    location: Place, ranks: tuple[RankFolder, ...], *command: str
) -> GraphDoctorError:
    """The error for a recording of several ranks where only one can be shown."""
    name, *options = command
    numbers = [found.rank for found in ranks]
    again = shlex.join(["graphdoctor", name, str(location), "--rank", str(numbers[0]), *options])
    return GraphDoctorError(
        f"{location} has {ranks_text(numbers)}, and {' '.join(command)} shows one rank.",
        hint=f"Choose one: {again}",
    )


@dataclass(frozen=True)
class RankPiece:
    """The work for one rank: ``location`` is what errors call its recording, and paths below
    ``root`` are relative.
    """

    files: RankFolder
    root: Path
    selection: Selection | None
    location: Place


def read_rank(piece: RankPiece) -> RankReport:
    """Read and diagnose one rank, for what others can be compared with; a pure function of its
    piece.
    """
    folder = piece.files.folder
    recording = read_folder(folder, Wanted(marks=True))
    diagnosis = diagnosis_of(recording, root=piece.root, selection=piece.selection)
    span = recording.span or LogSpan()
    is_cut = recording.is_partial or any(
        compile_.outcome == "unfinished" for compile_ in recording.compiles
    )
    return RankReport(
        rank=piece.files.rank,
        process=folder.processes[0].pid if folder.processes else None,
        summary=diagnosis.summary,
        complete=False if is_cut else span.is_ended,
        environment=recording.environment,
        compiles=_compiles(recording, span, piece.root),
        findings=diagnosis.findings,
        gaps=diagnosis.recording.gaps,
        **values_of(span, "first_s", "last_s", "executed"),
        records=recording.evidence.records,
        steps=recording.steps,
    )


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


def _compiles(recording: Recording, span: LogSpan, root: Path) -> tuple[RankCompile, ...]:
    marks = {mark.compile_id: mark for mark in span.marks}
    seen: Counter[tuple[str, str, int, int | None]] = Counter()
    frames: dict[int, dict[str, Any]] = {}
    for frame in recording.frames:
        place = (frame.file, frame.function, frame.line, frame.resumes_at)
        location = frame.entry.located(root)
        known = {
            "function": location.function,
            "location": location,
            "resumes_at": frame.resumes_at,
        }
        frames[frame.frame_id] = known | {"occurrence": seen[place]}
        seen[place] += 1
    unknown = {"function": "?", "location": StackEntry(file="?", line=0, function="?")}
    found: list[RankCompile] = []
    for compile_ in recording.compiles:
        causes, changed = _causes(compile_)
        found.append(
            RankCompile(
                causes=causes,
                changed=changed,
                is_dynamic=can_all_be_dynamic([compile_.cause]),
                mark=marks.get(compile_.compile_id) or CompileMark(compile_id=compile_.compile_id),
                **values_of(compile_, "compile_id", "outcome", "duration_s", "backend_s"),
                **frames.get(compile_.frame_id, unknown),
            )
        )
    return tuple(found)


def _causes(compile_: Compile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return why it was compiled, for people, and what ranks that agree have of it in common."""
    if compile_.cause is None or not compile_.cause.changes:
        reasons = compile_.recompile_reasons[:1]
        return reasons, tuple(_NUMBER.sub("N", reason) for reason in reasons)
    shown: list[str] = []
    for change in compile_.cause.changes:
        is_known = change.old is not None or change.new is not None
        shown.append(
            f"{change.expression}: {change.old or '?'} → {change.new or '?'}"
            if is_known
            else change.expression
        )
    return tuple(shown), tuple(
        sorted(f"{change.kind} {change.expression}" for change in compile_.cause.changes)
    )
