"""One rank by itself: its recording and diagnosis in, a ``RankReport`` out, small enough to be sent elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis, Location
from graphdoctor.facts.job import RankCompile, RankReport
from graphdoctor.facts.marks import CompileMark, LogSpan
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.recording import Compile, Frame, Recording
from graphdoctor.facts.stack import relative

_NUMBER = re.compile(r"\d+")


def rank_report(
    recording: Recording, diagnosis: Diagnosis, *, rank: int, process: int | None, root: Path
) -> RankReport:
    """What other ranks can be compared with.

    Args:
        recording: The rank's, read with its marks.
        diagnosis: What it means.
        rank: The rank's number.
        process: Its process id; None if unknown.
        root: Paths below it are shown relative to it.
    """
    span = recording.span or LogSpan()
    return RankReport(
        rank=rank,
        process=process,
        summary=diagnosis.summary,
        complete=_is_complete(recording, span),
        environment=recording.environment,
        compiles=_compiles(recording, span, root),
        findings=diagnosis.findings,
        gaps=diagnosis.gaps,
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
        found.append(
            RankCompile(
                compile_id=compile_.compile_id,
                function="?" if frame is None else frame.qualname or frame.function,
                location=_location(frame, root),
                resumes_at=None if frame is None else frame.resumes_at,
                occurrence=occurrences.get(compile_.frame_id, 0),
                outcome=compile_.outcome,
                causes=_causes(compile_),
                changed=_changed(compile_),
                duration_s=compile_.duration_s,
                backend_s=compile_.backend_s,
                mark=marks.get(compile_.compile_id) or CompileMark(compile_id=compile_.compile_id),
            )
        )
    return tuple(found)


def _occurrences(recording: Recording) -> Mapping[int, int]:
    """How many frames of the same function come before each frame."""
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


def _causes(compile_: Compile) -> tuple[str, ...]:
    if compile_.cause is not None and compile_.cause.changes:
        return tuple(_cause(change) for change in compile_.cause.changes)
    return compile_.recompile_reasons[:1]


def _changed(compile_: Compile) -> tuple[str, ...]:
    if compile_.cause is not None and compile_.cause.changes:
        return tuple(sorted(f"{change.kind} {change.expression}" for change in compile_.cause.changes))
    return tuple(_NUMBER.sub("N", reason) for reason in compile_.recompile_reasons[:1])


def _cause(change: GuardChange) -> str:
    if change.old is None and change.new is None:
        return change.expression
    return f"{change.expression}: {change.old or '?'} → {change.new or '?'}"
